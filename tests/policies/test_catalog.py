"""Policies by name: one table for attached queries, simulated plants, queries and flows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import policies
from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError
from penstock.policies import Autopilot, Threshold
from penstock.policies.catalog import CATALOG, canonical, fitting, policy_named
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.policies.wishes import wish
from penstock.testing import check_policy

BATCHES = Surroundings(PlantKind.MICRO_BATCHES, workers=(2, 5), target=3.0)


@pytest.mark.parametrize("kind", PlantKind)
@pytest.mark.parametrize("name", CATALOG)
def test_every_policy_by_name_keeps_the_contract_for_every_kind_of_plant_but_where_it_is_refused(name, kind):
    if name == "Autopilot" and kind is not PlantKind.MICRO_BATCHES:
        with pytest.raises(PenstockError, match="executors"):
            policy_named(name, Surroundings(kind))
        return
    check_policy(policy_named(name, Surroundings(kind, workers=(1, 4), stages=("panes", "windows"))))


def test_every_policy_of_the_package_has_a_name():
    assert {n for n in policies.__all__ if hasattr(getattr(policies, n), "step")} <= set(CATALOG)


@given(st.sampled_from(sorted(CATALOG)), st.booleans(), st.sampled_from(["", "-", "_", " "]))
def test_case_hyphens_and_underscores_do_not_matter(name, upper, between):
    spelled = name.upper() if upper else "".join(between + c if c.isupper() else c for c in name).strip(" -_")
    assert canonical(spelled) == name


def test_the_bounds_and_the_target_reach_the_policy():
    made = policy_named("mpc", BATCHES)
    assert (made.workers, made.target, made.drain, made.knob) == ((2, 5), 3.0, 3.0, Knob.EXECUTORS)


@pytest.mark.parametrize("word", ["latency", "balance", "cost"])
def test_the_share_that_may_be_late_reaches_those_who_aim_at_one(word):
    late = wish(word).late
    here = Surroundings(PlantKind.MICRO_BATCHES, workers=(2, 5), target=3.0, late=late)
    assert policy_named("autopilot", here).late == late
    assert policy_named("mpc", here).percentile == pytest.approx(1 - late)
    assert policy_named("mead", here).percentile == pytest.approx(1 - late)


def test_a_share_of_late_tuples_that_makes_no_sense_is_refused():
    with pytest.raises(PenstockError, match="late"):
        Surroundings(PlantKind.MICRO_BATCHES, late=1.0)


def test_words_override_what_fits():
    made = policy_named("threshold:high=0.7,limits=1:9,knob=workers,where=query", BATCHES)
    assert (made.high, made.limits, made.knob, made.where) == (0.7, (1, 9), Knob.WORKERS, "query")
    assert made.name == "threshold:high=0.7,limits=1:9,knob=workers,where=query"
    assert policy_named("mpc:drain=none,horizon=2,rebalance=true", BATCHES).drain is None


def test_an_object_stays_as_it_is():
    own = Threshold(high=0.6)
    assert policy_named(own, BATCHES) is own


@pytest.mark.parametrize("policy", ["autopilot", "Autopilot:late=0.1", Autopilot(limits=(1, 4))])
@pytest.mark.parametrize(
    "where",
    [Surroundings(PlantKind.REPLICAS), Surroundings(PlantKind.PREFERENCE), Surroundings(PlantKind.MICRO_BATCHES, workers=None)],
    ids=["flow", "query", "executors left alone"],
)  # fmt: skip
def test_an_autopilot_without_executors_to_turn_is_refused_with_where_it_works(policy, where):
    with pytest.raises(PenstockError, match=r"attach\(\)") as caught:
        policy_named(policy, where)
    assert "Ds2" in str(caught.value)


def test_executors_that_are_left_alone_leave_the_cpu_shares():
    made = policy_named("threshold", Surroundings(PlantKind.MICRO_BATCHES, workers=None, shares=(0.5, 1.0)))
    assert (made.knob, made.levels) == (Knob.CPU_SHARE, (0.5, 1.0))


def test_a_preference_query_shares_its_workers_between_the_stages():
    made = policy_named("maximum", Surroundings(PlantKind.PREFERENCE, (1, 8), stages=("panes", "windows")))
    assert made.workers == {"panes": 4, "windows": 4}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("thresold", "did you mean 'Threshold'"),
        ("threshold:hihg=1", "did you mean 'high'"),
        ("threshold:high=much", "no number"),
        ("mpc:horizon=1.5", "no whole number"),
        ("mpc:rebalance=maybe", "neither true nor false"),
        ("threshold:knob=tap", "Unknown value of knob"),
        ("mpc:forecaster=mine", "cannot be given in words"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(words, sentence):
    with pytest.raises(PenstockError, match=sentence) as caught:
        policy_named(words, BATCHES)
    assert "\n" not in str(caught.value)


def test_bounds_that_contradict_are_refused():
    with pytest.raises(PenstockError, match="contradict"):
        Surroundings(PlantKind.OPERATOR, workers=(4, 2))


def test_a_flow_is_offered_the_rivals_that_scale_workers():
    fits = fitting(PlantKind.REPLICAS)
    assert {"Organic", "Ds2", "Hpa", "Dhalion"} <= set(fits)
    assert policy_named("ds2", Surroundings(PlantKind.REPLICAS, workers=(1, 6))).limits == (1, 6)


def test_stages_of_a_query_that_work_in_turn_may_each_have_all_workers():
    here = Surroundings(PlantKind.PREFERENCE, (1, 2), stages=("panes", "windows"), in_turn=True)
    assert policy_named("Fuzzy", here).limit == 4
    assert policy_named("maximum", here).workers == {"panes": 2, "windows": 2}
    mpc = policy_named("mpc", here)
    assert (mpc.workers, mpc.budget) == ((1, 2), 4)


def test_the_model_of_mpc_for_a_flow_knows_that_tuples_wait_for_their_batch():
    assert policy_named("mpc", Surroundings(PlantKind.REPLICAS, (1, 4))).waiting == "microbatch"


def test_what_fits_a_preference_query():
    fits = fitting(PlantKind.PREFERENCE)
    assert {"Fuzzy", "Ds2", "Mpc"} <= set(fits)
    assert not {"Organic", "DynamicAllocation"} & set(fits)


@pytest.mark.parametrize("target", [0.0, float("nan"), float("inf")])
def test_a_target_that_is_no_number_of_seconds_is_refused(target):
    with pytest.raises(PenstockError, match=f"must be a number above 0 seconds, not {target}"):
        Surroundings(PlantKind.MICRO_BATCHES, target=target)
