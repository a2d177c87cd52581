import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.sim.plants.operator.migration import PROTOCOLS, hand_over
from penstock.sim.plants.operator.partitioned_operator import OperatorCosts, PartitionedOperator
from penstock.sim.plants.operator.triggers import Triggers
from penstock.testing import check_plant

PLAIN = {"spread": 0.0, "key_spread": 0.0}


def stream(rate=2000.0, seconds=20.0, keys=50, seed=1):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1 / rate, int(rate * seconds)))
    return Triggers(times, rng.integers(0, keys, len(times)).astype(np.int32), keys, seconds)


def workers(n):
    return Decision((Change(Knob.WORKERS, "operator", n),), "a test")


def test_it_keeps_the_contract_of_a_plant():
    p = PartitionedOperator(stream(), workers=2)
    check_plant(p, lambda s: p.wait_until(p.now() + s), workers(3), conserves=True)


def test_one_replica_is_a_fifo_queue():
    s = stream(rate=1500.0, keys=1)
    p = PartitionedOperator(s, OperatorCosts(**PLAIN, split_time=0.0, queue=10**6), workers=1)
    p.wait_until(25.0)
    work, service = 0.0, 0.92e6 / 2e9
    responses = []
    for gap in np.diff(s.times, prepend=0.0):
        work = max(work - gap, 0.0) + service
        responses.append(work)
    assert p.observe().latency.mean == pytest.approx(np.mean(responses))


def reference(times, keys, routing, service, capacity, split):
    """The operator one tuple at a time, with queues as lists."""
    free, left = {}, {}
    splitter, departures = 0.0, []
    for t, k in zip(times, keys, strict=True):
        r = routing[k]
        mine = left.setdefault(r, [])
        at = max(t, splitter, mine[-capacity] if len(mine) >= capacity else 0.0)
        splitter = at + split
        free[r] = max(at, free.get(r, 0.0)) + service
        mine.append(free[r])
        departures.append(free[r])
    return np.array(departures)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6), st.floats(500.0, 9000.0))
def test_full_queues_block_the_splitter_as_in_a_plain_model(capacity, n, seed, rate):
    s = stream(rate=rate, seconds=0.1, keys=7, seed=seed)
    costs = OperatorCosts(**PLAIN, queue=capacity, split_time=1e-5)
    p = PartitionedOperator(s, costs, workers=n)
    for t in np.linspace(0.01, 5.0, 60):
        p.wait_until(float(t))
    expected = reference(s.times, s.keys, p.routing, 0.92e6 / 2e9, capacity, 1e-5)
    assert np.allclose(p._departures, expected)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_tuple_is_served_once_through_many_migrations(protocol):
    s = stream(rate=6000.0, seconds=6.0)
    p = PartitionedOperator(s, OperatorCosts(protocol=protocol, hand_over=1e-3), workers=3)
    out = 0.0
    for step in range(1, 100):
        p.wait_until(step * 0.1)
        out += p.observe().stage().tuples_out
        if step < 60:
            p.apply(workers(2 + step % 5))
    assert out == len(s.times)
    assert np.isfinite(p._departures).all()


def peak(protocol):
    s = stream(rate=14_000.0, seconds=4.0, keys=500)
    p = PartitionedOperator(s, OperatorCosts(protocol=protocol), workers=6)
    p.wait_until(2.0)
    p.observe()
    p.apply(workers(8))
    p.wait_until(3.0)
    return p.observe().latency.mean


def test_migration_delays_least_where_nobody_is_blocked():
    assert peak("MP") < peak("R-BLK")
    assert peak("MP") < peak("S-BLK")


def test_a_higher_frequency_shortens_services_and_costs_power():
    p = PartitionedOperator(stream(), workers=3)
    p.wait_until(2.0)
    fast = p.observe()
    p.apply(Decision((Change(Knob.FREQUENCY, "operator", 1.2),), "a test"))
    p.wait_until(4.0)
    slow = p.observe()
    assert slow.stage().service_time == pytest.approx(fast.stage().service_time * 2.0 / 1.2, rel=0.05)
    assert slow.power < fast.power


def test_workers_and_routing_together_move_the_state_once():
    p = PartitionedOperator(stream(keys=10), workers=2)
    p.wait_until(1.0)
    p.observe()
    routing = tuple([2] * 5 + [0] * 5)
    done = p.apply(
        Decision((Change(Knob.WORKERS, "operator", 3), Change(Knob.ROUTING, "operator", routing)), "a test")
    )
    assert len(done.changes) == 2
    assert p.routing.tolist() == list(routing)


def test_a_routing_to_missing_workers_is_refused():
    p = PartitionedOperator(stream(keys=4), workers=2)
    done = p.apply(Decision((Change(Knob.ROUTING, "operator", (0, 1, 2, 3)),), "a test"))
    assert "only 2 workers" in done.refused[0][1]


def test_utilisation_is_the_share_of_what_could_be_served():
    p = PartitionedOperator(stream(rate=2000.0), workers=2)
    p.wait_until(10.0)
    assert p.observe().measure(Metric.UTILISATION) == pytest.approx(2000 * 0.46e-3 / 2, rel=0.1)


def test_keys_are_handed_over_one_by_one_after_the_queue():
    available, free = hand_over(np.array([0, 0, 1]), np.array([1, 1, 1]), np.array([5.0, 0.0]), 2.0, 0.5)
    assert available.tolist() == [5.5, 6.0, -np.inf]
    assert free.tolist() == [6.0, 0.0]


def assert_in_order(plant):
    """Every trigger is served once, and those of a key one after another, in the order in which they came."""
    assert np.isfinite(plant.departures).all()
    for key in range(plant.stream.key_count):
        mine = np.flatnonzero(plant.stream.keys == key)
        assert (plant._starts[mine][1:] >= plant.departures[mine][:-1] - 1e-12).all(), f"key {key}"


moves = st.lists(st.tuples(st.floats(0.0005, 0.03), st.integers(0, 10**6)), min_size=1, max_size=12)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=60, deadline=None)
@given(
    moves=moves, seed=st.integers(0, 10**6), buffers=st.sampled_from([1, 3, 10_000]), keys=st.integers(2, 12)
)
def test_tuples_of_a_key_are_served_in_order_however_often_it_moves(protocol, moves, seed, buffers, keys):
    s = stream(rate=8000.0, seconds=0.15, keys=keys, seed=seed)
    costs = OperatorCosts(
        protocol=protocol, hand_over=4e-3, queue=20, set_aside=buffers, held_back=buffers, spread=1.0
    )
    p = PartitionedOperator(s, costs, workers=4, seed=seed)
    now = 0.0
    for pause, choice in moves:
        now += pause
        p.wait_until(now)
        rng = np.random.default_rng(choice)
        routing = tuple(rng.integers(0, 4, keys).tolist())
        p.apply(Decision((Change(Knob.ROUTING, "operator", routing),), "a test"))
    p.wait_until(60.0)
    assert_in_order(p)


def test_a_day_of_migrations_keeps_the_order_within_every_key():
    s = stream(rate=6000.0, seconds=6.0)
    p = PartitionedOperator(s, OperatorCosts(protocol="MP", hand_over=1e-3), workers=3)
    for step in range(1, 100):
        p.wait_until(step * 0.1)
        if step < 60:
            p.observe()
            p.apply(workers(2 + step % 5))
    assert_in_order(p)


def test_the_splitter_tells_how_long_full_queues_held_it_up():
    calm = PartitionedOperator(stream(rate=500.0), OperatorCosts(**PLAIN, queue=4), workers=1)
    calm.wait_until(5.0)
    assert calm.observe().stage().congestion == pytest.approx(0.0, abs=0.01)
    rate = 4000.0  # one replica serves 2,174 a second: the splitter waits for it all the time but its own
    full = PartitionedOperator(stream(rate=rate), OperatorCosts(**PLAIN, queue=4), workers=1)
    full.wait_until(1.0)
    full.observe()
    full.wait_until(5.0)
    seen = full.observe()
    assert seen.measure(Metric.CONGESTION, "operator") == pytest.approx(1.0, abs=0.02)


def test_a_routing_that_came_with_refused_workers_is_refused_with_them():
    p = PartitionedOperator(stream(keys=4), workers=2, limit=3)
    p.wait_until(1.0)
    changes = (Change(Knob.WORKERS, "operator", 9), Change(Knob.ROUTING, "operator", (0, 0, 1, 1)))
    before = p.routing.tolist()
    done = p.apply(Decision(changes, "a test"))
    assert not done.changes
    assert [c.knob for c, _ in done.refused] == [Knob.WORKERS, Knob.ROUTING]
    assert p.routing.tolist() == before


@pytest.mark.parametrize("wrong", [{"set_aside": 0}, {"held_back": 0}, {"queue": 0}])
def test_buffers_without_room_are_refused(wrong):
    with pytest.raises(PenstockError, match="buffers of 1 or more"):
        OperatorCosts(**wrong)
