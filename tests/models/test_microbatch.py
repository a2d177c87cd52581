from itertools import pairwise

import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.models import MAP, MicroBatch, Poisson, fit_map2, kpc
from penstock.models.microbatch_loop import simulate_microbatch


def test_a_batch_that_runs_over_makes_the_next_one_longer() -> None:
    # Five tuples in the first second cost 1.25 s; the one that came meanwhile is served right after, not at 3 s.
    times = [0.1, 0.2, 0.3, 0.4, 0.5, 1.5]
    responses = simulate_microbatch(times, trigger=1.0, overhead=0.0, per_tuple=0.25)
    np.testing.assert_allclose(responses, [2.15, 2.05, 1.95, 1.85, 1.75, 1.0])


def test_after_an_overrun_the_next_batch_starts_on_a_trigger_again() -> None:
    responses = simulate_microbatch([0.5, 1.5, 2.6], trigger=1.0, overhead=1.1, per_tuple=0.0)
    # starts at 1 (until 2.1), right after (until 3.2), right after again: the trigger at 3 has passed
    np.testing.assert_allclose(responses, [1.6, 1.7, 1.7])
    responses = simulate_microbatch([0.5, 1.5, 2.6], trigger=1.0, overhead=0.0, per_tuple=0.8)
    np.testing.assert_allclose(responses, [1.3, 1.3, 1.2])


def test_overruns_add_up() -> None:
    responses = simulate_microbatch([0.5, 1.2, 2.1], trigger=1.0, overhead=0.0, per_tuple=1.25)
    # starts at 1 (one tuple, until 2.25) and right after (two tuples, until 4.75)
    np.testing.assert_allclose(responses, [1.75, 3.55, 2.65])


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize(
    "arrivals",
    [
        Poisson(500.0),
        fit_map2(0.002, dispersion=300.0),
        kpc(*[fit_map2(1.0, dispersion=5.0)] * 3).scaled(50.0),
    ],
    ids=["poisson", "bursty", "composed"],
)
def test_it_agrees_with_a_trace_driven_simulation_within_its_stated_error(arrivals: MAP, load: float) -> None:
    per_tuple = 2 * load / arrivals.rate
    query = MicroBatch(arrivals, trigger=1.0, overhead=0.2, per_tuple=per_tuple, workers=2)
    rng, runs = np.random.default_rng(7), []
    for _ in range(4):
        times = np.cumsum(arrivals.sample(int(2000 * arrivals.rate), rng))
        runs.append(simulate_microbatch(times, 1.0, 0.2, per_tuple, workers=2))
    means = np.array([run.mean() for run in runs])
    allowed = (
        4 * (query.error + means.std() / 2) + 0.005 * means.mean()
    )  # the bins and slots cost half a percent
    assert query.mean_response == pytest.approx(means.mean(), abs=allowed)
    simulated = np.quantile(np.concatenate(runs), 0.95)
    assert query.percentile(95) == pytest.approx(simulated, rel=0.02 + 6 * query.error / query.mean_response)


def test_more_workers_never_hurt_and_the_smallest_number_is_found() -> None:
    query = MicroBatch(fit_map2(0.001, dispersion=500.0), trigger=1.0, overhead=0.1, per_tuple=0.002)
    best = query.workers_for(target=1.5, q=95)
    assert best is not None
    assert query.with_capacity(workers=best).percentile(95) <= 1.5
    assert query.with_capacity(workers=best - 1).percentile(95) > 1.5
    responses = [query.with_capacity(workers=n).mean_response for n in range(3, 12)]
    assert all(more <= less + 1e-9 for less, more in pairwise(responses))


def test_the_smallest_cpu_share_is_found() -> None:
    query = MicroBatch(100.0, trigger=1.0, overhead=0.05, per_tuple=0.001)
    share = query.share_for(target=1.0)
    assert share is not None
    assert query.with_capacity(share=share).meets(1.0)
    assert not query.with_capacity(share=share - 0.01).meets(1.0)


def test_other_costs_under_the_same_arrivals_are_as_a_query_made_with_them() -> None:
    made = MicroBatch(64.0, trigger=1.0, overhead=0.2, per_tuple=0.01)
    other = MicroBatch(64.0, trigger=1.0, overhead=0.0, per_tuple=0.0).with_costs(0.2, 0.01)
    assert (other.mean_response, other.percentile(95)) == (made.mean_response, made.percentile(95))


def test_targets_that_no_number_of_workers_meets_are_told() -> None:
    query = MicroBatch(100.0, trigger=1.0, overhead=0.3, per_tuple=0.001)
    assert query.workers_for(target=0.7) is None
    assert query.share_for(target=0.7) is None


def test_overload_is_infinite() -> None:
    query = MicroBatch(1000.0, trigger=1.0, overhead=0.1, per_tuple=0.001)
    assert query.utilisation == pytest.approx(1.0)
    assert (query.mean_response, query.percentile(95), query.late_share) == (float("inf"), float("inf"), 1.0)


def test_late_triggers_are_counted() -> None:
    calm = MicroBatch(100.0, trigger=1.0, overhead=0.2, per_tuple=0.001)
    hurried = MicroBatch(100.0, trigger=1.0, overhead=0.9, per_tuple=0.002)
    assert calm.late_share == 0.0
    assert hurried.late_share > 0.9
    assert hurried.mean_batch > 1.0


def test_rare_tuples_wait_half_a_trigger_and_their_own_batch() -> None:
    query = MicroBatch(0.01, trigger=1.0, overhead=0.2, per_tuple=0.1)
    assert query.mean_response == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    "wrong",
    [{"trigger": 0.0}, {"overhead": -1.0}, {"per_tuple": float("nan")}, {"workers": 0}, {"share": 1.5}],
)
def test_impossible_queries_are_refused(wrong: dict[str, float]) -> None:
    settings = {"trigger": 1.0, "overhead": 0.1, "per_tuple": 0.001} | wrong
    with pytest.raises(PenstockError):
        MicroBatch(10.0, **settings)


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(PenstockError):
        MicroBatch(10.0, 1.0, 0.1, 0.001).workers_for(target=0.0)
    with pytest.raises(PenstockError, match="decrease"):
        simulate_microbatch([2.0, 1.0], 1.0, 0.1, 0.1)
    with pytest.raises(PenstockError):
        simulate_microbatch([1.0], 0.0, 0.1, 0.1)
