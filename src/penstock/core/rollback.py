"""Undo a change that made things worse, and remember it.

After a change the rule waits until the capacity has arrived and ``settle`` seconds have passed, then compares
the mean of ``samples`` observations with the mean before the change:

    worse  =  after > before (1 + worse_by)    for metrics where less is better (else: after < before (1 - worse_by))
    no use =  a growth that did not improve the metric by the share ``gain`` (only where ``gain`` is given)

There is no verdict when the load moved by more than ``load_change`` meanwhile, or was BURST times as high at any time
since the change, even if it is as before by now: then the metric tells about the load, or of the backlog that it left, not
about the change. Nor is there one that would take a growth back where a backlog was being worked off at any time from the
change on (``overdue``, which the guards find by their ``catch_up``): rows that waited in it are late however many workers there
are, and fewer would leave more. A change that was undone is refused while the load stays as it was, for ``memory``
seconds at the most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan, nan

from penstock.core.capacity import Knob, KnobValue
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation

#: How many times the load before a change makes a burst of one observation; less is the noise of short periods.
BURST = 2.0


@dataclass(frozen=True, slots=True)
class RollbackRule:
    """When a change counts as bad (see the module's text)."""

    metric: Metric = Metric.LATENCY_MEAN
    where: str = ""  # place of the metric; "" is the whole application
    worse_by: float = 0.1
    gain: float | None = None
    settle: float = 5.0
    samples: int = 3
    load_change: float = 0.2
    patience: float = 120.0  # seconds to wait for capacity to arrive before the probation is given up
    memory: float = 3600.0

    def __post_init__(self) -> None:
        if self.metric.better == 0:
            raise PenstockError(
                f"{self.metric} has no better direction; choose a metric such as latency_mean or throughput."
            )
        if self.samples < 1 or self.settle < 0 or self.load_change <= 0:
            raise PenstockError("A rollback rule needs samples >= 1, settle >= 0 and load_change > 0.")


@dataclass(frozen=True, slots=True)
class Probation:
    """A change on probation."""

    changes: tuple[Change, ...]
    undo: tuple[Change, ...]
    grows: bool
    begun: float
    before: float
    load: float
    arrived: float = nan
    peak: float = 0.0  # the highest load since
    after: tuple[float, ...] = ()
    loads: tuple[float, ...] = ()
    overdue: bool = False  # whether a backlog was being worked off at any time since


@dataclass(frozen=True, slots=True)
class BadChange:
    """A change that was undone, and the load under which it was."""

    knob: Knob
    where: str
    value: KnobValue
    load: float
    until: float


@dataclass(frozen=True, slots=True)
class RollbackState:
    """Recent samples of metric and load, the change on probation, and the bad ones."""

    metric: tuple[float, ...] = ()
    load: tuple[float, ...] = ()
    probation: Probation | None = None
    bad: tuple[BadChange, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those on probation."""
        return () if self.probation is None else self.probation.changes


def begin(
    state: RollbackState,
    observation: Observation,
    changes: tuple[Change, ...],
    grows: bool,
    overdue: bool = False,
) -> RollbackState:
    """Put a change that was just applied on probation; ``overdue`` tells whether a backlog is being worked off."""
    undo = []
    for change in changes:
        before = observation.value(change.knob, change.where)
        if (
            before is not None
            and before != ()
            and before != change.value
            and change.knob is not Knob.SHEDDING
        ):
            undo.append(Change(change.knob, change.where, before))
    before_metric = _mean(state.metric)
    if not undo or isnan(before_metric):
        return replace(state, probation=None)
    probation = Probation(
        changes, tuple(undo), grows, observation.time, before_metric, _mean(state.load), overdue=overdue
    )
    return replace(state, probation=probation)


def judge(
    rule: RollbackRule, state: RollbackState, observation: Observation, overdue: bool = False
) -> tuple[RollbackState, Decision | None, str]:
    """Take one more sample; when the probation is over, the decision that undoes it (or None) and a note in words.

    ``overdue`` tells whether a backlog is being worked off where the change on probation was made.
    """
    metric, load = observation.measure(rule.metric, rule.where), observation.measure(Metric.ARRIVAL_RATE)
    now = observation.time
    bad = tuple(b for b in state.bad if b.until > now and not _moved(rule, b.load, load))
    state = replace(
        state,
        metric=_keep(state.metric, metric, rule.samples),
        load=_keep(state.load, load, rule.samples),
        bad=bad,
    )
    probation = state.probation
    if probation is None:
        return state, None, ""
    if load > probation.peak or overdue:
        peak = load if load > probation.peak else probation.peak
        probation = replace(probation, peak=peak, overdue=probation.overdue or overdue)
        state = replace(state, probation=probation)
    if isnan(probation.arrived):
        return _await_arrival(rule, state, probation, observation)
    if now - probation.arrived < rule.settle or isnan(metric):
        return state, None, ""
    probation = replace(probation, after=(*probation.after, metric), loads=(*probation.loads, load))
    if len(probation.after) < rule.samples:
        return replace(state, probation=probation), None, ""
    return _verdict(rule, replace(state, probation=None), probation, now)


def refused(state: RollbackState, change: Change) -> bool:
    """Whether this change was undone under the present load."""
    return any((b.knob, b.where, b.value) == (change.knob, change.where, change.value) for b in state.bad)


def _await_arrival(
    rule: RollbackRule, state: RollbackState, probation: Probation, observation: Observation
) -> tuple[RollbackState, Decision | None, str]:
    waiting = [
        c
        for c in probation.changes
        if (cap := observation.capacity(c.knob, c.where)) is not None and cap.arriving
    ]
    if not waiting:
        return replace(state, probation=replace(probation, arrived=observation.time)), None, ""
    if observation.time - probation.begun > rule.patience:
        return (
            replace(state, probation=None),
            None,
            f"{waiting[0]} did not arrive in {rule.patience:g} s; no verdict on it",
        )
    return state, None, ""


def _verdict(
    rule: RollbackRule, state: RollbackState, probation: Probation, now: float
) -> tuple[RollbackState, Decision | None, str]:
    after, load = _mean(probation.after), _mean(probation.loads)
    if _moved(rule, probation.load, load) or probation.peak > BURST * probation.load:
        return state, None, "the load moved during the probation of the last change; no verdict on it"
    sign = -rule.metric.better
    gained = sign * (probation.before - after) / abs(probation.before) if probation.before else sign * -after
    needed = rule.gain if probation.grows and rule.gain is not None else -rule.worse_by
    if gained >= needed:
        return state, None, ""
    if probation.grows and probation.overdue:
        return (
            state,
            None,
            "a backlog was worked off during the probation of the last growth; no verdict on it",
        )
    until = now + rule.memory
    bad = tuple(BadChange(c.knob, c.where, c.value, probation.load, until) for c in probation.changes)
    made = ", ".join(map(str, probation.changes))
    reason = (
        f"undone: {rule.metric} went from {probation.before:.4g} to {after:.4g} {rule.metric.unit} after {made}, "
        f"a gain of {gained:+.0%} where {needed:+.0%} is needed"
    )
    return replace(state, bad=(*state.bad, *bad)), Decision(probation.undo, reason), "rollback"


def _moved(rule: RollbackRule, before: float, now: float) -> bool:
    """Whether the load is another one; what is not known (NaN) compares as not."""
    return abs(now - before) > rule.load_change * max(before, 1e-12)


def _keep(values: tuple[float, ...], value: float, count: int) -> tuple[float, ...]:
    return values if isnan(value) else (*values, value)[-count:]


def _mean(values: Sequence[float]) -> float:
    known = [v for v in values if not isnan(v)]
    return sum(known) / len(known) if known else nan
