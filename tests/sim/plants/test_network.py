import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.models.lindley import simulate_queue
from penstock.sim.plants.network import LOG_ANALYSIS, NetworkOperator, OperatorNetwork
from penstock.sim.plants.station import SimulatedStation
from penstock.testing import check_plant


def poisson(rate, count, seed=1):
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))


def test_it_keeps_the_contract_of_a_plant():
    p = OperatorNetwork(poisson(300.0, 20_000))
    ask = Decision((Change(Knob.CPU_SHARE, "matcher", 0.55),), "a test")
    check_plant(p, lambda s: p.wait_until(p.now() + s), ask, conserves=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6), st.lists(st.floats(0.05, 3.0), min_size=1, max_size=8))
def test_a_station_is_the_queue_of_the_textbook_however_time_is_cut(servers, seed, cuts):
    rng = np.random.default_rng(seed)
    gaps, services = rng.exponential(1.0, 60), rng.exponential(0.8 * servers, 60)
    times = np.cumsum(gaps)
    station = SimulatedStation(60, services, servers)
    now, fed, gone = 0.0, 0, []
    for cut in [*np.cumsum(cuts), 1e4]:
        now = max(now, float(cut))
        last = int(np.searchsorted(times, now, side="right"))
        station.append(times[fed:last], np.arange(fed, last))
        fed = last
        station.run(now, 1.0)
        gone += station.leave(now).tolist()
        assert station.waiting == fed - len(gone)
    assert sorted(gone) == list(range(60))
    assert np.allclose(station.departure - times, simulate_queue(gaps, services, servers))


def test_tuples_pass_both_branches_and_responses_add_up():
    p = OperatorNetwork(poisson(100.0, 2_000), seed=2)
    p.wait_until(100.0)
    p.observe()
    assert p.paths["matcher"].count == p.paths["counter"].count
    assert p.paths["matcher"].mean > p.paths["counter"].mean
    assert p.paths["matcher"].count == pytest.approx(0.99 * 2000, abs=25)


def test_a_smaller_share_takes_longer():
    def mean(share):
        p = OperatorNetwork(poisson(300.0, 10_000), share=share)
        p.wait_until(60.0)
        return p.responses.mean

    assert mean(0.55) > 1.9 * mean(1.0)


def test_replicas_share_a_queue():
    p = OperatorNetwork(poisson(900.0, 20_000), most_replicas=4)
    p.wait_until(5.0)
    slow = p.observe().latency.mean
    p.apply(Decision((Change(Knob.WORKERS, "matcher", 3),), "a test"))
    p.wait_until(15.0)
    p.observe()
    p.wait_until(16.0)
    assert p.observe().latency.mean < slow / 5


def test_shares_above_one_are_refused():
    p = OperatorNetwork(poisson(10.0, 10))
    assert p.apply(Decision((Change(Knob.CPU_SHARE, "parser", 1.5),), "a test")).refused


def test_operators_must_be_listed_sources_first():
    with pytest.raises(PenstockError, match="sources first"):
        OperatorNetwork(np.array([1.0]), (NetworkOperator("a", 1.0), NetworkOperator("b", 1.0, ("a",))))
    assert LOG_ANALYSIS[0].downstream == ("counter", "matcher")


def test_what_is_shed_is_counted_and_the_rest_passes():
    p = OperatorNetwork(poisson(300.0, 20_000))
    ask = Decision((Change(Knob.SHEDDING, "parser", 0.25),), "a test")
    check_plant(p, lambda s: p.wait_until(p.now() + s), ask, conserves=True)
    before = p.shed
    p.observe()
    start, seen = p.now(), 0
    for _ in range(10):
        p.wait_until(p.now() + 1.0)
        stage = p.observe().stage("parser")
        seen += stage.arrival_rate
        assert stage.shedding == 0.25
    assert (p.shed - before) / seen == pytest.approx(0.25, abs=0.02)
    assert p.now() - start == pytest.approx(10.0)


def test_a_lower_frequency_is_slower_and_saves_power():
    p = OperatorNetwork(poisson(100.0, 20_000), frequencies=(1.2, 2.0))
    p.wait_until(20.0)
    fast = p.observe()
    p.apply(Decision((Change(Knob.FREQUENCY, "matcher", 1.2),), "a test"))
    p.wait_until(40.0)
    slow = p.observe()
    assert slow.stage("matcher").service_time == pytest.approx(
        fast.stage("matcher").service_time / 0.6, rel=0.1
    )
    assert slow.power < fast.power
    refused = p.apply(Decision((Change(Knob.FREQUENCY, "matcher", 1.3),), "a test")).refused
    assert "1.3 GHz" in refused[0][1]


@pytest.mark.parametrize("selectivity", [0.5, 1.0])
def test_what_comes_by_two_ways_is_served_in_order_of_time(selectivity):
    """However long a step is; with all tuples by both ways the line had no room."""
    operators = (
        NetworkOperator("in", 1e-5, ("a", "b"), 2),
        NetworkOperator("a", 1e-5, ("c",), 2, selectivity),
        NetworkOperator("b", 1e-5, ("c",), 2, selectivity),
        NetworkOperator("c", 1e-5, (), 2),
    )
    plant = OperatorNetwork(poisson(100.0, 100), operators)
    plant.wait_until(2.0)
    stage = plant.observe().stage("c")
    assert stage.waiting_time < 1e-3
    assert stage.tuples_in == pytest.approx(200 * selectivity, rel=0.3)
