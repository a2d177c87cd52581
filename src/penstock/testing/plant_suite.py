"""The contract suite that every plant must pass."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.core.plant import Applied, Plant


def check_plant(
    plant: Plant,
    wait: Callable[[float], object],
    decision: Decision,
    *,
    period: float = 1.0,
    steps: int = 5,
    arrives_within: float = 60.0,
    conserves: bool = False,
) -> None:
    """Raise AssertionError unless the plant keeps its contract.

    ``wait(seconds)`` lets time pass (virtual or real). ``decision`` is one the plant can make. Checked: time goes
    forward; figures have a possible sign; names and capacities are there; what is applied becomes planned at
    the next observation, and observed within ``arrives_within`` seconds; an unknown place is refused or raises and
    changes nothing; with ``conserves``, tuples that come in are given out, dropped or in the backlog.
    """
    seen = [_observe(plant, wait, period) for _ in range(steps)]
    _check_time(seen)
    for observation in seen:
        _check_figures(observation)
    applied = plant.apply(decision)
    assert isinstance(applied, Applied), "apply returns what was applied"
    assert applied.changes, f"the plant could not make {decision.changes}: {applied.refused}"
    _check_arrival(plant, wait, period, applied.changes, arrives_within)
    _check_refusal(plant, wait, period)
    if conserves:
        _check_conservation(seen)


def _observe(plant: Plant, wait: Callable[[float], object], period: float) -> Observation:
    wait(period)
    return plant.observe()


def _check_time(seen: Iterable[Observation]) -> None:
    times = [o.time for o in seen]
    assert times == sorted(times), f"time went backwards: {times}"
    assert len(set(times)) == len(times), f"time stood still: {times}"


def _check_figures(observation: Observation) -> None:
    assert observation.period > 0, "the period covered must be positive"
    assert observation.stages, "a plant has at least one stage"
    counts = (Metric.ARRIVAL_RATE, Metric.BUSY_TIME, Metric.TUPLES_IN, Metric.TUPLES_OUT, Metric.BACKLOG,
              Metric.UTILISATION, Metric.LATENCY_MEAN, Metric.WAITING_TIME)  # fmt: skip
    for stage in observation.stages:
        assert stage.name, "every stage has a name"
        for metric in counts:
            value = observation.measure(metric, stage.name)
            assert isnan(value) or value >= 0, f"{stage.name}: {metric} is {value}"
        latency = stage.latency
        for low, high in (
            (latency.p50, latency.p95),
            (latency.p95, latency.p99),
            (latency.p99, latency.maximum),
        ):
            assert isnan(low) or isnan(high) or low <= high + 1e-9, (
                f"{stage.name}: percentiles fall: {latency}"
            )


def _check_arrival(
    plant: Plant, wait: Callable[[float], object], period: float, changes: tuple[Change, ...], within: float
) -> None:
    after = _observe(plant, wait, period)
    start = after.time
    for change in changes:
        assert after.value(change.knob, change.where) == change.value, (
            f"{change} was applied but is not planned"
        )
    while any(_pending(after, c) for c in changes):
        assert after.time - start <= within, f"{changes} did not arrive within {within} s"
        after = _observe(plant, wait, period)


def _pending(observation: Observation, change: Change) -> bool:
    capacity = observation.capacity(change.knob, change.where)
    return capacity is not None and abs(capacity.observed - change.number) > 1e-9


def _check_refusal(plant: Plant, wait: Callable[[float], object], period: float) -> None:
    before = [s.workers.planned for s in _stages(plant, wait, period)]
    nonsense = Decision((Change(Knob.WORKERS, "no such place", 1),), "a test")
    try:
        applied = plant.apply(nonsense)
    except Exception:  # noqa: BLE001 - raising anything is one of the two allowed answers
        applied = Applied()
    assert not applied.changes, "the plant claims to have changed a place that does not exist"
    assert [s.workers.planned for s in _stages(plant, wait, period)] == before, (
        "a refused change changed something"
    )


def _stages(plant: Plant, wait: Callable[[float], object], period: float) -> tuple[StageObservation, ...]:
    """The stages at the next observation."""
    return _observe(plant, wait, period).stages


def _check_conservation(seen: list[Observation]) -> None:
    for earlier, later in pairwise(seen):
        for old, new in zip(earlier.stages, later.stages, strict=True):
            arrived = new.arrival_rate * later.period
            if not any(isnan(v) for v in (arrived, new.tuples_in, old.backlog, new.backlog)):
                balance = old.backlog + arrived - new.tuples_in - new.backlog
                lost = sum(new.extra.get(k, 0.0) for k in ("dropped", "shed"))
                assert abs(balance - lost) <= 1e-6 * max(1.0, arrived) + 0.5, (
                    f"{new.name}: {balance - lost} tuples unaccounted for"
                )
