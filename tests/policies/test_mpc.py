import timeit
from dataclasses import replace

import numpy as np
import pytest

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import KeyLoad, Latency, Observation, StageObservation
from penstock.forecast.holt import Holt
from penstock.forecast.last_value import LastValue
from penstock.models import fit_map2
from penstock.models.power import PowerModel
from penstock.policies import Mpc
from penstock.policies.mpc_model import Grid, OperatorLoad, Weights, response, stage_costs
from penstock.policies.search import shortest_path
from penstock.policies.waiting import GRID, BurstWait, KingmanWait, burst_wait
from penstock_lab.searches import exhaustive

LAST = LastValue()
FREQUENCIES = tuple(round(1.2 + 0.1 * i, 1) for i in range(9))


def at(rate, workers=4, service=1e-3, time=1.0, name="op", **fields):
    stage = StageObservation(
        name, Capacity.steady(workers), arrival_rate=rate, service_time=service, **fields
    )
    return Observation(time, 1.0, (stage,))


def first(policy, observation):
    return policy.step(policy.start(), observation)[1]


def test_it_takes_the_fewest_replicas_that_keep_up():
    policy = Mpc(switching=0.0, forecaster=LAST)
    for rate in (100, 900, 1800, 3500, 9000):
        wanted = first(policy, at(rate, workers=6)).number(Knob.WORKERS, "op", 6)
        assert wanted == int(np.ceil(rate * 1e-3 / 0.95)), rate


def test_latency_needs_more_replicas_than_throughput():
    throughput = first(Mpc(switching=0.0, forecaster=LAST), at(3500, arrival_scv=4.0))
    latency = first(Mpc("latency", target=1.5e-3, switching=0.0, forecaster=LAST), at(3500, arrival_scv=4.0))
    assert latency.number(Knob.WORKERS, "op", 4) > throughput.number(Knob.WORKERS, "op", 4)
    assert latency.predicted[Metric.LATENCY_MEAN] < 1.5e-3


def test_the_switching_cost_brakes_and_a_longer_horizon_releases_the_brake():
    one = first(Mpc(switching=0.4, horizon=1, forecaster=LAST), at(500, workers=10)).number(
        Knob.WORKERS, "op", 10
    )
    three = first(Mpc(switching=0.4, horizon=3, forecaster=LAST), at(500, workers=10)).number(
        Knob.WORKERS, "op", 10
    )
    free = first(Mpc(switching=0.0, forecaster=LAST), at(500, workers=10)).number(Knob.WORKERS, "op", 10)
    assert free < three <= one


def test_a_rising_trend_is_met_in_advance():
    policy = Mpc(switching=0.0, horizon=1, forecaster=Holt(alpha=0.9, beta=0.9))
    state = policy.start()
    for step in range(20):
        state, decision = policy.step(state, at(1000 + 200 * step, time=float(step)))
    assert decision.number(Knob.WORKERS, "op", 4) * 0.95 >= (1000 + 200 * 20) * 1e-3 - 1e-6


def test_power_is_saved_by_a_lower_frequency():
    policy = Mpc(
        cost="power",
        speeds=FREQUENCIES,
        voltages=tuple(np.linspace(0.8, 1.1, 9)),
        switching=0.0,
        forecaster=LAST,
    )
    seen = at(3500, workers=6, service=1e-3, frequency=Capacity.steady(2.0))
    decision = first(policy, seen)
    workers, frequency = decision.number(Knob.WORKERS, "op", 6), decision.number(Knob.FREQUENCY, "op", 2.0)
    assert frequency < 2.0
    assert 3500 * 1e-3 * 2.0 / frequency / workers <= 0.95 + 1e-9


def test_power_counts_voltages_unless_told_otherwise():
    """Without them a core at 2 GHz costs no more than two at 1 GHz, and nothing is ever gained by slowing down."""
    plain = Mpc(cost="power", speeds=FREQUENCIES, switching=0.0, forecaster=LAST)
    table = PowerModel()
    assert plain.voltages == tuple(table.voltage(f) for f in FREQUENCIES)
    flat = replace(plain, voltages=(1.0,) * len(FREQUENCIES))
    seen = at(3500, workers=6, service=1e-3, frequency=Capacity.steady(2.0))

    def power(policy):
        decision = first(policy, seen)
        n, f = decision.number(Knob.WORKERS, "op", 6), decision.number(Knob.FREQUENCY, "op", 2.0)
        return table.power(n, f)

    assert power(plain) <= power(flat)
    without = at(3500, workers=6, service=1e-3)
    assert "no frequency can be set" in first(plain, without).reason
    assert not first(plain, without).changes
    with pytest.raises(PenstockError, match="voltages="):
        Mpc(cost="power", speeds=(1.2, 3.5))
    assert Mpc(cost="power", speeds=1.2).speeds == (1.2,)


@pytest.mark.parametrize("objective", ["throughput", "latency"])
@pytest.mark.parametrize("cost", ["cores", "power"])
def test_the_decision_is_the_optimum_of_the_stated_cost(objective, cost):
    """Costs written out once more by hand from Expr. 4-15, searched exhaustively."""
    rng = np.random.default_rng(11)
    for _ in range(25):
        rate, work, scv = rng.uniform(500, 9000), rng.uniform(1e-4, 2e-3), rng.uniform(0.2, 5)
        alpha, beta, gamma, target = rng.uniform(1, 20), 0.5, rng.uniform(0, 0.6), rng.uniform(1e-3, 1e-2)
        speeds, volts = (1.2, 1.6, 2.0), (0.8, 0.9, 1.0)
        planned = int(rng.integers(1, 5))
        policy = Mpc(
            objective,
            cost,
            2,
            gamma,
            alpha,
            beta,
            target,
            workers=(1, 4),
            speeds=speeds,
            voltages=volts,
            forecaster=LAST,
        )
        seen = at(rate, planned, work / 2.0, arrival_scv=scv, service_scv=0.5, frequency=Capacity.steady(2.0))
        by_hand = np.empty((4, 3))
        for i, n in enumerate((1, 2, 3, 4)):
            for j, (f, v) in enumerate(zip(speeds, volts, strict=True)):
                service = work / f
                rho = service / n * rate / 0.95
                if objective == "throughput":
                    quality = alpha * max(1.0, rho)
                elif rho < 1:
                    quality = alpha * np.exp(
                        min(40, (service + rho / (1 - rho) * (scv + 0.5) / 2 * service / n) / target)
                    )
                else:
                    quality = alpha * np.exp(40 + min(rho, 100))
                by_hand[i, j] = quality + beta * (n if cost == "cores" else n * f * v * v)
        axes = [np.arange(1.0, 5), np.array(speeds) / 0.1]
        best = exhaustive([by_hand, by_hand], axes, [planned, 20.0], gamma)
        decision = first(policy, seen)
        chosen = (
            int(decision.number(Knob.WORKERS, "op", planned)),
            decision.number(Knob.FREQUENCY, "op", 2.0),
        )
        i, j = best.trajectory[0]
        assert chosen == (i + 1, speeds[j])


def test_the_correction_factor_follows_measured_waits():
    policy = Mpc("latency", target=5e-3, forecaster=LAST)
    state = policy.start()
    rate, service = 3000.0, 1e-3
    wait = float(KingmanWait()(np.array(rate * service / 4 / 0.95))) * service / 4
    for step in range(5):
        state, _ = policy.step(state, at(rate, 4, service, time=float(step), waiting_time=3 * wait))
    memory = dict(state.stages)["op"]
    assert memory.ratios == pytest.approx((3.0, 3.0, 3.0))


def test_several_stages_share_a_budget():
    stages = tuple(
        StageObservation(n, Capacity.steady(2), arrival_rate=r, service_time=1e-3)
        for n, r in (("a", 2500.0), ("b", 900.0))
    )
    seen = Observation(1.0, 1.0, stages)
    free = first(Mpc(stages=("a", "b"), switching=0.0, forecaster=LAST), seen)
    assert (free.number(Knob.WORKERS, "a", 2), free.number(Knob.WORKERS, "b", 2)) == (3, 1)
    tight = first(Mpc(stages=("a", "b"), budget=3, switching=0.0, forecaster=LAST), seen)
    assert (tight.number(Knob.WORKERS, "a", 2), tight.number(Knob.WORKERS, "b", 2)) == (2, 1)
    assert "not met" in tight.reason
    impossible = first(Mpc(stages=("a", "b"), budget=1, forecaster=LAST), seen)
    assert not impossible.feasible


def test_joint_optimisation_equals_exhaustive_search_over_the_product():
    rng = np.random.default_rng(2)
    grids = [Grid((1, 2, 3), (1.0, 2.0)), Grid((1, 2), (1.0, 1.5))]
    for _ in range(10):
        loads = [
            OperatorLoad(n, (float(rng.uniform(2e-4, 2e-3)),) * 2, 1e-3, KingmanWait(2.0, 1.0)) for n in "ab"
        ]
        weights = Weights("latency", "cores", 2.0, 0.5, 5e-3, None)
        costs = stage_costs(grids, loads, weights, 2, budget=4)
        axes = [a for g in grids for a in g.axes()]
        now = [1.0, 10.0, 1.0, 10.0]
        assert shortest_path(costs, axes, now, 0.3).cost == pytest.approx(
            exhaustive(costs, axes, now, 0.3).cost
        )


def test_a_target_beyond_reach_is_said_and_the_best_is_done():
    decision = first(Mpc("latency", target=1e-4, workers=(1, 4), forecaster=LAST), at(3000))
    assert not decision.feasible
    assert decision.number(Knob.WORKERS, "op", 4) == 4
    assert "not met" in decision.reason


def test_a_change_of_replicas_comes_with_a_routing_that_balances():
    keys = KeyLoad(tuple([1 / 32] * 32), (), tuple(i % 2 for i in range(32)))
    decision = first(Mpc(switching=0.0, forecaster=LAST), at(3500, workers=2, keys=keys))
    routing = decision.value(Knob.ROUTING, "op")
    assert np.bincount(routing).tolist() == [8, 8, 8, 8]


def test_uneven_keys_are_rebalanced_without_a_change_of_replicas():
    keys = KeyLoad((0.4, 0.4, 0.1, 0.1), (), (0, 0, 1, 1))
    decision = first(Mpc(switching=0.4, forecaster=LAST), at(1800, workers=2, keys=keys))
    assert decision.value(Knob.WORKERS, "op") is None
    assert decision.value(Knob.ROUTING, "op") is not None


def test_a_burst_table_is_the_queue_it_was_made_from():
    from penstock.models import Erlang, MapPh1, fit_map2

    service = Erlang(2, 1.0)
    rhos = np.linspace(0.05, 0.98, 40)
    arrivals = fit_map2(1.0, dispersion=50.0)
    table = BurstWait(GRID, tuple(MapPh1(arrivals.scaled(r), service).mean_wait for r in GRID))
    exact = [MapPh1(arrivals.scaled(r), service).mean_wait for r in rhos]
    assert np.allclose(table(rhos), exact, rtol=0.1)
    assert np.isinf(table(np.array([1.0]))[0])


def test_under_bursts_the_map_model_takes_more_replicas_than_kingman():
    gaps = fit_map2(1 / 2000.0, dispersion=200.0).sample(20_000, np.random.default_rng(1))
    seen = at(
        2000.0,
        workers=4,
        arrival_scv=float(gaps.var() / gaps.mean() ** 2),
        service_scv=0.5,
        interarrivals=gaps,
    )
    options = {
        "objective": "latency",
        "target": 0.01,
        "switching": 0.0,
        "forecaster": LAST,
        "workers": (1, 12),
    }
    kingman = first(Mpc(**options), seen).number(Knob.WORKERS, "op", 4)
    aware = first(Mpc(**options, waiting="map"), seen).number(Knob.WORKERS, "op", 4)
    assert aware > kingman


def test_a_poisson_stream_needs_no_more_under_the_map_model():
    gaps = np.random.default_rng(2).exponential(1 / 2000.0, 20_000)
    table = burst_wait(gaps, 0.5)
    rho = np.array([0.3, 0.6, 0.9])
    assert np.allclose(table(rho), KingmanWait(1.0, 0.5)(rho), rtol=0.25)


def test_a_backlog_is_worked_off_when_asked():
    seen = at(1000, workers=2, backlog=20_000.0)
    plain = first(Mpc(switching=0.0, forecaster=LAST), seen).number(Knob.WORKERS, "op", 2)
    draining = first(Mpc(switching=0.0, drain=10.0, forecaster=LAST), seen).number(Knob.WORKERS, "op", 2)
    assert (plain, draining) == (2, 4)


@pytest.mark.parametrize(
    "wrong",
    [{"objective": "speed"}, {"cost": "money"}, {"margin": -1.0}, {"steep": 0.0}, {"waiting": "guess"}, {"horizon": 0}, {"workers": (3, 1)}, {"cost": "power"},
     {"speeds": (1.0,), "voltages": (1.0, 2.0)}, {"target": 0.0}, {"knob": Knob.EXECUTORS, "stages": ("a", "b")}],
)  # fmt: skip
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(PenstockError, match="Mpc"):
        Mpc(**wrong)


@pytest.mark.parametrize(("horizon", "limit"), [(3, 5e-3), (10, 50e-3)])
def test_a_decision_over_108_options_is_quick(horizon, limit):
    policy = Mpc("latency", "power", horizon, speeds=FREQUENCIES, voltages=(1.0,) * 9, workers=(1, 12))
    seen = at(5000, frequency=Capacity.steady(2.0), arrival_scv=3.0)
    state, _ = policy.step(policy.start(), seen)
    best = min(timeit.repeat(lambda: policy.step(state, replace(seen, time=2.0)), number=5, repeat=3)) / 5
    assert best < limit


def test_response_grows_with_load_and_falls_with_replicas():
    grid = Grid((1, 2, 4, 8), (1.0, 2.0))
    slow, fast = (response(grid, OperatorLoad("a", (gap,), 1e-3, KingmanWait()), 0) for gap in (2e-3, 4e-3))
    assert np.all(slow >= fast)
    assert np.all(np.diff(slow, axis=0) <= 0)


def spark_like(rate=1000.0, executors=2, dispersion=60.0, latency=float("nan")):
    gaps = fit_map2(1 / rate, dispersion=dispersion).sample(20_000, np.random.default_rng(3))
    stage = StageObservation(
        "query", Capacity.steady(executors), arrival_rate=rate, interarrivals=gaps, service_time=0.002, latency=Latency(mean=latency),
        arrival_scv=2.0, cpu_share=Capacity.steady(1.0), trigger=1.0, overhead_time=0.2,
    )  # fmt: skip
    return Observation(1.0, 1.0, (stage,), executors=Capacity.steady(executors), slots=float(executors))


@pytest.mark.parametrize("waiting", ["microbatch", "microbatch-map"])
def test_on_micro_batches_kingman_is_blind_and_the_micro_batch_model_sees_the_trigger(waiting):
    options = {
        "objective": "latency",
        "target": 1.2,
        "switching": 0.0,
        "knob": Knob.EXECUTORS,
        "forecaster": LAST,
    }
    blind = first(Mpc(**options), spark_like())
    aware = first(Mpc(**options, waiting=waiting), spark_like())
    assert blind.predicted[Metric.LATENCY_MEAN] < 0.1
    assert 0.7 < aware.predicted[Metric.LATENCY_MEAN] <= 1.25  # the cost is soft around the target
    assert aware.number(Knob.EXECUTORS, "", 2) > blind.number(Knob.EXECUTORS, "", 2)


def test_the_micro_batch_table_is_the_model():
    from penstock.models import MicroBatch, fit_kpc
    from penstock.policies.batch_waiting import BatchSetting, batch_response

    gaps = spark_like().stages[0].interarrivals
    table = batch_response(gaps, BatchSetting(1.0, 0.2, 0.002, 1000.0), (0.5, 1.0))
    query = MicroBatch(fit_kpc(gaps, best=1, max_states=8)[0].scaled(1000.0), 1.0, 0.2, 0.002)
    for workers in (3, 4, 6, 9):
        for i, share in enumerate((0.5, 1.0)):
            rho = 1000 * 0.002 / (workers * share)
            got = float(table(np.array([[rho, rho]]), (0.5, 1.0))[0, i])
            exact = query.with_capacity(workers=workers, share=share).mean_response
            assert got == pytest.approx(exact, rel=0.15) if rho < 1 else got == np.inf


def test_a_percentile_on_micro_batches_needs_more_than_the_mean():
    options = {
        "objective": "latency",
        "target": 1.3,
        "switching": 0.0,
        "knob": Knob.EXECUTORS,
        "forecaster": LAST,
        "waiting": "microbatch-map",
    }
    mean = first(Mpc(**options), spark_like()).number(Knob.EXECUTORS, "", 2)
    upper = first(Mpc(**options, percentile=0.95), spark_like()).number(Knob.EXECUTORS, "", 2)
    assert upper > mean


def test_executors_with_several_slots_do_several_times_the_work():
    seen = spark_like()
    wide = replace(seen, slots=8.0)
    policy = Mpc(switching=0.0, knob=Knob.EXECUTORS, forecaster=LAST)
    assert first(policy, seen).number(Knob.EXECUTORS, "", 2) == 3
    assert first(policy, wide).number(Knob.EXECUTORS, "", 2) == 1


def three_stages():
    """A source that cannot grow, a stage that can and is busiest of those, one that is not."""
    fixed, busy, idle = (
        replace(at(900, name=name, region=name).stages[0], workers=Capacity.steady(1, limit), utilisation=u)
        for name, limit, u in (("read/0", 1.0, 0.99), ("match/0", 8.0, 0.9), ("count/0", 8.0, 0.2))
    )
    return Observation(1.0, 1.0, (fixed, busy, replace(idle, region="count")))


def test_without_names_it_controls_the_busiest_stage_that_can_grow():
    decided = first(Mpc(switching=0.0, forecaster=LAST, workers=(2, 4)), three_stages())
    assert {change.where for change in decided.changes} == {"match/0"}


def test_a_region_stands_for_its_stages_and_an_unknown_name_is_refused_with_the_known_ones():
    decided = first(Mpc(switching=0.0, forecaster=LAST, workers=(2, 4), stages=("count",)), three_stages())
    assert {change.where for change in decided.changes} == {"count/0"}
    with pytest.raises(PenstockError, match=r"nowhere.*match/0"):
        first(Mpc(stages=("nowhere",)), three_stages())
