import numpy as np
import pytest

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.preference import skyline
from penstock.sim.plants.query.preference_plant import PreferencePlant, QueryCosts
from penstock.sim.plants.query.source import of_events, query_stream
from penstock.sim.plants.query.window_stage import STRATEGIES
from penstock.testing import check_plant
from penstock.traffic import map2, poisson
from penstock.traffic.attributes import Attributes

SMALL = Attributes(4)


def stream(rate=2000.0, seconds=6.0, delay=0.1, seed=1):
    return query_stream(poisson(rate), seconds, delay=delay, attributes=SMALL, seed=seed)


def drain(plant, step=0.5, act=None, most=400):
    for k in range(1, most):
        plant.wait_until(k * step)
        plant.observe()
        if plant.drained:
            return
        if act is not None:
            act(k)
    raise AssertionError("it does not end")


def workers(stage, n):
    return Decision((Change(Knob.WORKERS, stage, n),), "a test")


def test_it_keeps_the_contract_of_a_plant():
    p = PreferencePlant(stream(), pane_workers=2, window_workers=2, limit=8)
    check_plant(p, lambda s: p.wait_until(p.now() + s), workers("panes", 3), period=0.5, conserves=True)


def answers(plant):
    """Sizes of the windows' skylines, found by brute force."""
    s, model = plant.stream, plant.model
    came = ~plant.is_late
    points, panes = s.points(0, len(s))[came], plant._pane_of[came]
    sizes = {}
    for window in range(int(panes.min()) - model.panes_per_window + 1, int(panes.max()) + 1):
        first, last = model.panes_of_window(window)
        inside = points[(panes >= first) & (panes <= last)]
        sizes[window] = len(skyline(inside)) if len(inside) else 0
    return sizes


@pytest.mark.parametrize("scheduling", STRATEGIES)
@pytest.mark.parametrize("splitting", ["PB_RR", "TB_RR", "AS", "AS_PID", "none"])
def test_every_window_is_given_out_once_in_order_and_right(splitting, scheduling):
    p = PreferencePlant(
        stream(seconds=1.5),
        pane_workers=3,
        window_workers=3,
        splitting=splitting,
        scheduling=scheduling,
        limit=8,
    )
    drain(p)
    numbers = [w.number for w in p.windows.finished]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert {w.number: w.size for w in p.windows.finished} == answers(p)


def test_workers_that_come_and_go_change_no_answer():
    p = PreferencePlant(stream(seconds=4.0), pane_workers=3, window_workers=2, limit=8)
    rng = np.random.default_rng(5)

    def act(_):
        p.apply(workers("panes", int(rng.integers(1, 7))))
        p.apply(workers("windows", int(rng.integers(1, 7))))

    drain(p, step=0.13, act=act)
    assert {w.number: w.size for w in p.windows.finished} == answers(p)


def test_every_tuple_is_processed_dropped_late_or_queued():
    s = query_stream(map2(rate=3000, dispersion=200), 5.0, delay=0.2, attributes=SMALL, seed=2)
    p = PreferencePlant(s, pane_workers=1, window_workers=1, costs=QueryCosts(comparison=5e-6))
    for t in np.arange(0.25, 6.0, 0.25):
        p.wait_until(float(t))
        p.observe()
        arrived = int(np.searchsorted(s.arrival, t))
        assert p.panes.done.sum() + p.late + p.panes.queued(t).sum() == arrived


def test_one_worker_serves_in_order():
    s = stream(rate=500.0, seconds=1.0)
    p = PreferencePlant(s, costs=QueryCosts(comparison=0.0, tuple_time=1e-3), scheduling=None)
    p.wait_until(5.0)
    free = 0.0
    for t in s.arrival:
        free = max(free, t) + 1e-3
    assert p.panes.free[0] == pytest.approx(free)


def test_splitting_lets_more_tuples_pass():
    def passed(splitting):
        p = PreferencePlant(stream(), pane_workers=6, splitting=splitting, scheduling=None, limit=8)
        p.wait_until(8.0)
        return np.mean(p.selected), np.mean(p.parts)

    whole, split = passed("none"), passed("TB_RR")
    assert whole[1] == 1.0
    assert split[1] == pytest.approx(6.0, abs=0.1)
    assert split[0] > 1.2 * whole[0]


def test_the_controller_splits_no_more_than_needed():
    def run(n):
        s = query_stream(poisson(20_000.0), 8.0, attributes=Attributes(6), seed=1)
        p = PreferencePlant(
            s, "1 second", "100 milliseconds", QueryCosts(1.2e-6), pane_workers=n, scheduling=None
        )
        p.wait_until(8.0)
        late = [r for t, r in p.samples if t > 4.0]
        return np.mean(p.parts[40:]), np.mean(late)

    few, many = run(2), run(8)
    assert few[1] == pytest.approx(0.9, abs=0.25) or few[0] > 1.8
    assert many[0] < 6
    assert many[1] < 1.0


def test_in_order_release_delays_but_sorts():
    s = stream(delay=0.2)
    ordered = s.in_order()
    assert np.all(np.diff(ordered.event_time) >= 0)
    assert np.all(np.diff(ordered.arrival) >= 0)
    assert np.all(ordered.arrival >= ordered.waiting - 1e-12)
    assert len(ordered) >= 0.99 * len(s)


def test_empty_panes_are_no_obstacle():
    s = of_events(np.concatenate([np.linspace(0, 0.3, 200), np.linspace(5.0, 5.3, 200)]), attributes=SMALL)
    p = PreferencePlant(s, pane_workers=2, window_workers=2, limit=4)
    drain(p)
    assert {w.number: w.size for w in p.windows.finished} == answers(p)


def test_the_same_stream_gives_the_same_run():
    def run():
        p = PreferencePlant(stream(), pane_workers=2, window_workers=2)
        p.wait_until(4.0)
        return p.observe()

    assert run() == run()


def test_panes_tell_the_tuples_that_they_gave_on():
    """By one attribute each pane has one best tuple, however many came."""
    one = query_stream(poisson(1000.0), 6.0, delay=0.0, attributes=Attributes(1), seed=1)
    plant = PreferencePlant(one, pane_workers=2, window_workers=1, limit=8)
    plant.wait_until(2.5)
    told = plant.observe().stage("panes")
    assert told.tuples_out == len(plant.parts) > 5


def test_workers_may_go_before_a_pane_has_heard_of_them():
    plant = PreferencePlant(stream(seconds=2.0), pane_workers=1, window_workers=1, limit=8)
    plant.wait_until(0.3)
    for count in (4, 1):  # in an instant: no row comes in between
        plant.apply(workers("panes", count))
    drain(plant)
