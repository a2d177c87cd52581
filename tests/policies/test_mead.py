from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.models import Poisson, fit_map2
from penstock.models.fitted import FittedMap
from penstock.policies import Mead
from penstock.policies.mead_batches import BatchModel
from penstock.policies.mead_fits import shared_fit
from penstock.policies.mead_model import KingmanModel, ModelledOperator, NetworkModel
from penstock.policies.threshold import CPU_LEVELS

RNG = np.random.default_rng(4)
BURSTY = fit_map2(1 / 100.0, dispersion=60.0).sample(20_000, RNG)
CALM = RNG.exponential(1 / 100.0, 20_000)
DEMANDS = {"parser": 0.0012, "counter": 0.0015, "matcher": 0.0035}


def log_analysis(gaps, share=1.0, time=0.0, workers=1, **batches):
    """MEAD's application: a parser that feeds a counter and a matcher."""
    rate = 1 / float(np.mean(gaps))
    stages = tuple(
        StageObservation(
            name,
            Capacity.steady(workers),
            downstream=("counter", "matcher") if name == "parser" else (),
            arrival_rate=rate,
            arrival_scv=float(np.var(gaps) / np.mean(gaps) ** 2),
            interarrivals=gaps if name == "parser" else None,
            tuples_in=rate,
            tuples_out=rate,
            service_time=demand / share,
            service_scv=0.5,
            cpu_share=Capacity.steady(share),
            **(batches if name == "parser" else {}),
        )
        for name, demand in DEMANDS.items()
    )
    return Observation(time, 10.0, stages)


def shares(policy, observation):
    policy = replace(policy, best=2)  # two fits a window show the same and take less time
    _, decision = policy.step(policy.start(), observation)
    return {n: decision.number(Knob.CPU_SHARE, n, 1.0) for n in DEMANDS}, decision


def test_under_bursts_the_map_model_asks_for_more_than_poisson_or_kingman():
    total = {}
    for model in ("map", "mg1", "gig1"):
        chosen, decision = shares(Mead(model, target=0.1, down=None), log_analysis(BURSTY))
        total[model] = sum(chosen.values())
        assert decision.feasible
    assert total["map"] > total["mg1"]
    assert total["map"] > total["gig1"]


def test_without_bursts_the_models_agree():
    results = [shares(Mead(model, target=0.02, down=None), log_analysis(CALM))[0] for model in ("map", "mg1")]
    assert abs(sum(results[0].values()) - sum(results[1].values())) <= 0.3


@pytest.mark.parametrize("percentile", [None, 0.95])
def test_what_is_chosen_meets_the_target_by_its_own_model_and_the_operator_that_needs_it_gets_it(percentile):
    target = 0.15 if percentile is None else 0.5
    chosen, decision = shares(
        Mead("map", target=target, percentile=percentile, down=None), log_analysis(BURSTY)
    )
    metric = Metric.LATENCY_MEAN if percentile is None else Metric.LATENCY_P95
    assert decision.predicted[metric] <= target
    assert chosen["matcher"] == max(chosen.values())


def test_a_percentile_needs_at_least_as_much_as_the_mean():
    mean, _ = shares(Mead(target=0.3, down=None), log_analysis(BURSTY))
    upper, _ = shares(Mead(target=0.3, percentile=0.95, down=None), log_analysis(BURSTY))
    assert all(upper[n] >= mean[n] for n in mean)


def test_the_heuristic_is_close_to_the_best_configuration():
    operators = tuple(
        ModelledOperator(n, d, downstream=("counter", "matcher") if n == "parser" else ())
        for n, d in DEMANDS.items()
    )
    for dispersion, target in ((20.0, 0.05), (60.0, 0.1), (100.0, 0.3)):
        arrivals = fit_map2(1 / 100.0, dispersion=dispersion)
        model = NetworkModel(operators, ({"parser": arrivals},))
        best = min(
            (sum(c) for c in product(CPU_LEVELS, repeat=3)
             if max(model.predict({n: (1, s) for n, s in zip(DEMANDS, c, strict=True)}).paths.values()) <= target),
            default=None,
        )  # fmt: skip
        policy = Mead(target=target, down=None)
        decision = policy._plan(model, log_analysis(CALM))
        cost = sum(decision.number(Knob.CPU_SHARE, n, 1.0) for n in DEMANDS)
        assert decision.feasible == (best is not None)
        if best is not None:
            assert cost <= best + 0.31  # at most two levels more in all


def test_scale_down_takes_one_level_at_a_time():
    chosen, decision = shares(Mead(target=5.0), log_analysis(CALM))
    assert set(chosen.values()) == {0.85}
    assert "released slowly" in decision.reason


def test_scale_up_goes_all_the_way_at_once():
    chosen, _ = shares(Mead(target=0.1), log_analysis(BURSTY, share=0.4))
    assert chosen["matcher"] >= 0.7


def test_demands_are_measured_at_the_present_share():
    slow, _ = shares(Mead(target=0.1, down=None), log_analysis(BURSTY, share=0.55))
    fast, _ = shares(Mead(target=0.1, down=None), log_analysis(BURSTY, share=1.0))
    present = {n: 0.55 if v == 1.0 else v for n, v in slow.items()}
    assert {n: v for n, v in fast.items() if v not in (1.0, 0.55)} == {
        n: v for n, v in present.items() if v not in (1.0, 0.55)
    }


def test_a_target_beyond_reach_is_said():
    _, decision = shares(Mead(target=0.001), log_analysis(CALM))
    assert not decision.feasible
    assert "no configuration" in decision.reason


def test_it_analyses_only_when_due():
    policy = Mead(target=0.1, interval=60.0, best=2)
    state, first = policy.step(policy.start(), log_analysis(BURSTY, time=10.0))
    assert "response" in first.reason
    state, second = policy.step(state, log_analysis(BURSTY, time=20.0))
    assert "due" in second.reason
    _, third = policy.step(state, log_analysis(BURSTY, time=70.0))
    assert "response" in third.reason


def test_too_few_arrivals_or_unknown_demands_are_waited_for():
    _, decision = shares(Mead(), log_analysis(BURSTY[:50]))
    assert "50 of 1000" in decision.reason
    seen = log_analysis(BURSTY)
    bare = replace(seen, stages=tuple(replace(s, service_time=float("nan")) for s in seen.stages))
    assert "not known" in shares(Mead(), bare)[1].reason
    assert "response" in shares(Mead(demands=DEMANDS), bare)[1].reason


def test_several_windows_notice_a_change_of_the_traffic():
    changed = np.concatenate([CALM[:10_000], BURSTY[:10_000]])
    one, _ = shares(Mead(target=0.1, windows=1, down=None), log_analysis(changed))
    two, _ = shares(Mead(target=0.1, windows=2, down=None), log_analysis(changed))
    assert sum(two.values()) >= sum(one.values())


def test_replicas_extend_the_choice():
    heavy = {"parser": 0.004, "counter": 0.005, "matcher": 0.018}
    policy = Mead("mg1", target=0.1, replicas=(1, 2, 3), demands=heavy, down=None)
    _, decision = policy.step(policy.start(), log_analysis(CALM))
    assert decision.feasible
    assert decision.number(Knob.WORKERS, "matcher", 1) * decision.number(Knob.CPU_SHARE, "matcher", 1.0) > 1.8
    alone = Mead("mg1", target=0.1, demands=heavy, down=None)
    assert not alone.step(alone.start(), log_analysis(CALM))[1].feasible


def test_on_micro_batches_the_wait_for_the_batch_counts():
    gaps = BURSTY / 10  # 1000 tuples a second
    stage = StageObservation(
        "query", Capacity.steady(2), arrival_rate=1000.0, interarrivals=gaps, service_time=0.001, tuples_in=1000.0,
        tuples_out=1000.0, cpu_share=Capacity.steady(1.0), trigger=1.0, overhead_time=0.2,
    )  # fmt: skip
    seen = Observation(1.0, 1.0, (stage,), executors=Capacity.steady(2), slots=2.0)
    policy = Mead(target=1.5, knob=Knob.EXECUTORS, replicas=(1, 2, 3, 4), down=None, best=2)
    _, decision = policy.step(policy.start(), seen)
    assert 0.5 < decision.predicted[Metric.LATENCY_MEAN] <= 1.5
    tight = Mead(best=2, target=0.6, knob=Knob.EXECUTORS, replicas=(1, 2, 3, 4), down=None)
    assert not tight.step(tight.start(), seen)[1].feasible  # half a trigger and the overhead are 0.7 s
    mean = BatchModel((ModelledOperator("query", 0.001),), "query", (Poisson(1000.0),), 1.0, 0.2, 2.0)
    assert mean.predict({"query": (1, 1.0)}).paths[("query",)] == pytest.approx(0.5 + 0.2 + 0.5, abs=0.05)


def test_kingman_follows_rates_through_the_graph():
    operators = (
        ModelledOperator("a", 0.001, 1.0, 0.5, 1.0, ("b", "c")), ModelledOperator("b", 0.001, 1.0, 1.0, 1.0, ("d",)),
        ModelledOperator("c", 0.001, 1.0, 1.0, 1.0, ("d",)), ModelledOperator("d", 0.001, 1.0, 1.0, 1.0, ()),
    )  # fmt: skip
    model = KingmanModel(operators, {"a": 400.0})
    assert model.paths == (("a", "b", "d"), ("a", "c", "d"))
    assert model.rates == {"a": 400.0, "b": 200.0, "c": 200.0, "d": 400.0}
    assert model.predict({o.name: (1, 0.5) for o in operators}).operators["a"] == pytest.approx(
        0.002 + 4 * 0.002
    )


@pytest.mark.parametrize(
    "wrong",
    [{"model": "x"}, {"model": "gig1", "percentile": 0.95}, {"target": 0.0}, {"percentile": 95}, {"levels": ()}, {"replicas": (0,)}],
)  # fmt: skip
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(PenstockError):
        Mead(**wrong)


def source(name, gaps, service=0.002, **stage):
    rate = 1 / float(np.mean(gaps))
    return StageObservation(
        name, Capacity.steady(1), arrival_rate=rate, arrival_scv=1.0, interarrivals=gaps, tuples_in=rate,
        tuples_out=rate, service_time=service, service_scv=0.5, cpu_share=Capacity.steady(1.0), **stage,
    )  # fmt: skip


@pytest.mark.parametrize("model", ["map", "mg1", "gig1"])
def test_all_sources_of_an_application_count(model):
    """Two thirds of the load come through the second and the third source."""
    sink = StageObservation(
        "sink", Capacity.steady(1), service_time=0.003, service_scv=0.5, tuples_in=300.0, tuples_out=300.0,
        cpu_share=Capacity.steady(1.0),
    )  # fmt: skip
    names = ("a", "b", "c")
    one = Observation(0.0, 10.0, (source("a", CALM, downstream=("sink",)), sink))
    all_ = Observation(0.0, 10.0, (*(source(n, CALM, downstream=("sink",)) for n in names), sink))
    policy = Mead(model, target=0.05, down=None, best=2)
    few = policy.step(policy.start(), one)[1]
    many = policy.step(policy.start(), all_)[1]
    # 300 tuples a second of 3 ms are 0.9 of a core: less than the whole of it will not do.
    assert many.number(Knob.CPU_SHARE, "sink", 1.0) == 1.0
    assert few.number(Knob.CPU_SHARE, "sink", 1.0) < 1.0


def test_queries_that_share_executors_need_them_together():
    gaps = CALM / 10  # 1,000 rows a second each
    queries = [replace(source(n, gaps, 0.001), cpu_share=None, trigger=1.0, overhead_time=0.1) for n in "abc"]
    policy = Mead("mg1", target=1.5, knob=Knob.EXECUTORS, replicas=tuple(range(1, 9)), down=None)

    def executors(stages):
        seen = Observation(0.0, 1.0, tuple(stages), executors=Capacity.steady(4, 8), slots=4.0)
        return policy.step(policy.start(), seen)[1].number(Knob.EXECUTORS, "", 4)

    alone, together = executors(queries[:1]), executors(queries)
    assert alone <= 2
    assert together >= alone + 2  # the other two keep two slots busy


def test_a_source_too_quiet_for_a_fit_counts_by_its_rate():
    quiet = replace(source("quiet", CALM), interarrivals=None)
    seen = Observation(0.0, 10.0, (source("a", CALM), quiet))
    policy = Mead("mg1", target=0.1, down=None)
    assert "response" in policy.step(policy.start(), seen)[1].reason


def test_every_path_has_a_target_of_its_own():
    seen = log_analysis(BURSTY)
    loose, _ = shares(Mead(target=5.0, down=None), seen)
    tight, decision = shares(Mead(target=5.0, targets={"matcher": 0.1}, down=None), seen)
    assert tight["matcher"] > loose["matcher"]
    assert tight["counter"] == loose["counter"]
    assert decision.feasible
    with pytest.raises(PenstockError, match="Unknown stage or region 'mather'; did you mean 'matcher'"):
        shares(Mead(target=5.0, targets={"mather": 0.1}), seen)
    with pytest.raises(PenstockError, match=r"'parser', in which no path ends; give it to .*matcher"):
        shares(Mead(target=5.0, targets={"parser": 0.1}), seen)
    with pytest.raises(PenstockError):
        Mead(targets={"matcher": 0.0})


def test_fits_with_a_bad_score_are_not_believed():
    """The worst of the fits counts, but not one that does not describe the stream."""
    good = fit_map2(0.01, dispersion=1.5)
    bad = fit_map2(0.01, dispersion=3000.0)

    def fit(with_bad):
        def made(gaps, best, states):
            fits = [FittedMap(good.D0, good.D1, score=0.2)]
            return fits + ([FittedMap(bad.D0, bad.D1, score=2.0)] if with_bad else [])

        return made

    chosen = [
        shares(Mead(target=0.1, down=None, fit=fit(with_bad)), log_analysis(CALM))[0]
        for with_bad in (False, True)
    ]
    assert chosen[0] == chosen[1]


def test_fits_are_kept_while_they_describe_the_arrivals_and_made_anew_when_they_do_not():
    policy = Mead(target=0.1, interval=10.0, windows=1, best=1, max_states=4, keep=1.5, refit=0.0)
    state, _ = policy.step(policy.start(), log_analysis(BURSTY, time=0.0))
    made = dict(state.fits)["parser", 0].made
    state, faster = policy.step(state, log_analysis(0.8 * BURSTY, time=10.0))
    assert dict(state.fits)["parser", 0].made == made
    assert "map model" in faster.reason
    state, _ = policy.step(state, log_analysis(CALM, time=20.0))
    assert dict(state.fits)["parser", 0].made == 20.0


def test_a_kept_fit_is_not_made_anew_before_its_time():
    policy = Mead(target=0.1, interval=10.0, windows=1, best=1, max_states=4, keep=1.5, refit=60.0)
    state, _ = policy.step(policy.start(), log_analysis(BURSTY, time=0.0))
    state, _ = policy.step(state, log_analysis(CALM, time=20.0))
    assert dict(state.fits)["parser", 0].made == 0.0
    state, _ = policy.step(state, log_analysis(CALM, time=60.0))
    assert dict(state.fits)["parser", 0].made == 60.0


def test_a_fit_of_few_seconds_goes_when_twice_as_many_are_known():
    """What a run begins with, a pause or a burst, would count for minutes."""
    policy = Mead(target=0.1, interval=10.0, windows=1, best=1, max_states=4, keep=1.5, refit=120.0)
    half = BURSTY[: len(BURSTY) // 2]
    state, _ = policy.step(policy.start(), log_analysis(half, time=0.0))
    state, _ = policy.step(state, log_analysis(BURSTY[: int(0.6 * len(BURSTY))], time=10.0))
    assert dict(state.fits)["parser", 0].made == 0.0
    state, _ = policy.step(state, log_analysis(np.concatenate([BURSTY, half]), time=20.0))
    assert dict(state.fits)["parser", 0].made == 20.0


def test_policies_on_the_same_arrivals_share_their_fits():
    assert shared_fit(CALM, 1, 4) is shared_fit(CALM.copy(), 1, 4)
    assert shared_fit(CALM, 1, 4) is not shared_fit(BURSTY, 1, 4)
