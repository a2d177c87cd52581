"""Journals to show: a query whose load rises and falls, as fast or as long as a test wants it."""

from math import ceil, sin

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.observation import KeyLoad, Latency, Observation, StageObservation
from penstock.core.plant import Applied

HEADER = {"query": "best offers", "started": 1_700_000_000.0, "target": 0.5, "metric": "latency_p95"}


def write(journal, seconds, begin=0, period=1.0):
    """Seconds of a run from ``begin`` on; the policy decides every five observations."""
    workers = 2
    for step in range(begin, begin + int(seconds / period)):
        time = (step + 1) * period
        rate = 5_000 * (1.1 + sin(time / 40))
        load = rate / (workers * 6_000)
        journal.observation(observation(time, period, rate, load, workers))
        if step % 5 == 4:
            wanted = ceil(rate / 4_000)
            made = (Change(Knob.WORKERS, "panes", wanted),) if wanted != workers else ()
            journal.decision(time, "Fuzzy", Decision(made, f"the load of {load:.2f} is <seen>"))
            if made:
                journal.reconfiguration(time, Applied(made), {made[0]: workers})
            workers = wanted


def observation(time, period, rate, load, workers):
    busy = tuple(min(1.0, load * (1 - 0.1 * at)) for at in range(workers))
    panes = StageObservation(
        "panes",
        Capacity.steady(workers),
        arrival_rate=rate,
        tuples_in=rate * period,
        tuples_out=rate * period / 20,
        utilisation=load,
        worker_utilisation=busy,
        splitting=1 + load,
        downstream=("windows",),
        keys=KeyLoad((0.6, 0.2, 0.2), routing=(0, 1, 1)),
    )
    windows = StageObservation(
        "windows", Capacity.steady(1), tuples_out=20.0, utilisation=load / 3, worker_utilisation=(load / 3,)
    )
    extra = {"answer_lag": 0.1 + load / 10, "slack": 0.2, "dropped_share": 0.01}
    return Observation(time, period, (panes, windows), latency=Latency(0.2, 0.2, 0.3 + load / 4), extra=extra)
