"""Who is rehearsed where nobody was named."""

from penstock.policies import Ds2
from penstock.policies.autopilot.candidates import default_candidates


def test_candidates_have_names_of_their_own_and_keep_to_the_limits():
    for limits in ((1, 2), (1, 32), (3, 9)):
        candidates = default_candidates(limits)
        assert len({c.name for c in candidates}) == len(candidates)
        assert candidates[0].executors == limits[1]
        assert all(getattr(c, "limits", limits) == limits for c in candidates)


def test_some_answer_every_observation_and_some_wait():
    waits = {c.settle for c in default_candidates((1, 32)) if isinstance(c, Ds2)}
    assert min(waits) <= 5.0 < max(waits)
