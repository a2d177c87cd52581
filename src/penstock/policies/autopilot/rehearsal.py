"""Candidate policies on shadows of the run: each sees the same arrivals at the same costs, and is scored by what it did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, isnan, nan
from typing import Any

import numpy as np

from penstock.core.capacity import Capacity, Knob
from penstock.core.observation import Observation, StageObservation
from penstock.core.policy import AnyPolicy
from penstock.policies.autopilot.shadow import (
    ARRIVES_AFTER,
    WARM_UP,
    Bins,
    MeasuredCosts,
    Period,
    Shadow,
    advance,
)
from penstock.policies.batch_waiting import AT_ONCE

#: Bins that a trigger interval is cut into.
_FINE = 10


#: The least seconds in which an executor can be there: a JVM has to start.
SOONEST = 2.0
#: Seconds between two marks of a rehearsal's totals: what was further back than the memory is left out by the mark.
MARKS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """One candidate's rehearsal: its shadow, its policy's state, what it did last and in all.

    ``marks`` are the totals at earlier times, one a minute: what it did since then is the difference.
    """

    shadow: Shadow
    state: Any
    total: Period
    last: Period
    marks: tuple[Period, ...]

    def did(self, period: Period, counts: bool, memory: float) -> "Rehearsal":
        """After another period, which counts for the totals or not."""
        total = self.total.plus(period) if counts else replace(self.total, time=period.time)
        marks = self.marks if counts else ()
        if not marks or total.time - marks[-1].time >= MARKS - 1e-9:
            old = sum(mark.time < total.time - memory - 1e-9 for mark in marks)
            marks = (*marks[old:], total)
        return replace(self, total=total, last=period, marks=marks)


@dataclass(frozen=True, slots=True)
class Score:
    """A candidate over some time: share of late rows, core-seconds a minute, changes an hour."""

    late: float
    cost: float
    changes: float
    seconds: float
    worst: float = 0.0  # late rows of the worst minute, over all rows


@dataclass(frozen=True, slots=True)
class Meter:
    """What is measured on the way: the costs, how far batches take longer than they say, executors on their way.

    ``arrives_after`` and ``warm_up`` are learned even while the costs are not known.
    """

    costs: MeasuredCosts | None = None
    arrives_after: float = ARRIVES_AFTER
    warm_up: float = WARM_UP
    stretch: float = 1.0
    asked: float = nan  # since when executors are on their way
    observed: float = 0.0  # executors that worked at the last observation
    cold: int = 0  # observations to come whose batches may be those of new executors


def measured(meter: Meter, observation: Observation) -> Meter:
    """The costs after another observation; those of before where it lacks something."""
    stage = scaled_stage(observation)
    executors = observation.executors
    if stage is None or executors is None or executors.observed < 1:
        return meter
    trigger, overhead = stage.trigger, stage.overhead_time
    slots = 1.0 if isnan(observation.slots) else observation.slots / executors.observed
    grown = executors.arriving or executors.observed > meter.observed
    meter = replace(_arrivals(meter, observation, executors), cold=2 if grown else max(0, meter.cold - 1))
    if isfinite(seen := stage.extra.get("warm_up", nan)):
        meter = replace(meter, warm_up=0.7 * meter.warm_up + 0.3 * seen)
    if not (trigger >= 0 and stage.service_time > 0 and isfinite(overhead)):
        return meter
    if not meter.cold:
        meter = replace(meter, stretch=_stretched(meter, stage, overhead, slots * executors.observed))
    costs = MeasuredCosts(
        max(trigger, AT_ONCE),
        meter.stretch * overhead,
        meter.stretch * stage.service_time,
        max(slots, 1e-3),
        meter.arrives_after,
        meter.warm_up,
    )
    return replace(meter, costs=costs)


def _arrivals(meter: Meter, observation: Observation, executors: Capacity) -> Meter:
    """With how long executors took that have all come now; what was taken back or given up tells nothing."""
    begin = observation.time - observation.period
    more = executors.observed > meter.observed > 0
    meter = replace(meter, observed=executors.observed)
    asked = begin if isnan(meter.asked) else meter.asked
    if executors.arriving:
        return replace(meter, asked=asked)
    if not more:
        return replace(meter, asked=nan)
    # They were asked for when a period began, and came in this one: in the middle of what is possible.
    came = max(begin, asked + SOONEST)
    took = (came + max(came, observation.time)) / 2 - asked
    return replace(meter, asked=nan, arrives_after=0.7 * meter.arrives_after + 0.3 * took)


def _stretched(meter: Meter, stage: StageObservation, overhead: float, slots: float) -> float:
    """How much longer batches take than overhead and service time say, on average."""
    rows, took = stage.extra.get("batch_rows", nan), stage.batch_duration
    expected = overhead + rows * stage.service_time / max(slots, 1e-9)
    if not (isfinite(took) and expected > 0):
        return meter.stretch
    return 0.9 * meter.stretch + 0.1 * min(max(took / expected, 0.5), 2.0)


def scaled_stage(observation: Observation) -> StageObservation | None:
    """The stage whose arrivals are known that brings the most work; queries that share the executors are one by now."""
    known = [s for s in observation.stages if isfinite(s.arrival_rate)]
    return max(known, key=lambda s: s.arrival_rate * max(s.service_time, 0.0), default=None)


def binned(observation: Observation, stage: StageObservation, costs: MeasuredCosts) -> Bins:
    """The arrivals of the period in fine bins: by the inter-arrival times where they are told, else evenly.

    A bin without rows is none: where nothing comes, no batch runs.
    """
    count = max(1, round(observation.period / costs.trigger * _FINE))
    start, width = observation.time - observation.period, observation.period / count
    rows = stage.arrival_rate * observation.period
    centres = np.asarray(start + width * (np.arange(count) + 0.5), dtype=np.float64)
    number = round(rows / stage.interarrival_rows)  # of a fast stream an arrival stands for several rows
    gaps = stage.interarrivals
    if gaps is None or not 0 < number <= len(gaps):
        each = np.full(count, rows / count)
    else:
        ages = np.concatenate([[0.0], np.cumsum(gaps[len(gaps) - number + 1 :][::-1])])
        place = np.clip((observation.period - ages) / width, 0, count - 1).astype(int)
        each = np.bincount(place, minlength=count) * (rows / number)
    filled = each > 0
    return Bins(centres[filled], each[filled], each[filled] * costs.service)


def rehearsed(
    rehearsals: Mapping[str, Rehearsal],
    candidates: Sequence[tuple[str, AnyPolicy]],
    observation: Observation,
    costs: MeasuredCosts,
    target: float,
    memory: float,
    counts: bool = True,
) -> dict[str, Rehearsal]:
    """Every candidate one period further, which counts for its score or not."""
    stage = scaled_stage(observation)
    if stage is None:
        return dict(rehearsals)
    bins = binned(observation, stage, costs)
    after = {}
    for name, policy in candidates:
        rehearsal = rehearsals.get(name) or _begun(policy, observation)
        advanced, period = _advanced(rehearsal, policy, bins, observation, stage, costs, target)
        after[name] = advanced.did(period, counts, memory)
    return after


def _begun(policy: AnyPolicy, observation: Observation) -> Rehearsal:
    present = observation.executors.observed if observation.executors else 1.0
    begin = observation.time - observation.period
    shadow = Shadow(begin, present, present, next_start=begin, warm=present)
    nothing = Period(begin)
    return Rehearsal(shadow, policy.start(), nothing, nothing, (nothing,))


def _advanced(
    rehearsal: Rehearsal,
    policy: AnyPolicy,
    bins: Bins,
    observation: Observation,
    stage: StageObservation,
    costs: MeasuredCosts,
    target: float,
) -> tuple[Rehearsal, Period]:
    shadow, seen, period = advance(rehearsal.shadow, bins, observation, stage, costs, target)
    state, decision = policy.step(rehearsal.state, seen)
    wanted = decision.number(Knob.EXECUTORS, "", shadow.planned)
    period = replace(period, changes=int(wanted != shadow.planned))
    return replace(rehearsal, shadow=shadow.plan(wanted, costs), state=state), period


def relief(rehearsal: Rehearsal, observation: Observation, costs: MeasuredCosts, target: float) -> float:
    """Executors beyond the rehearsal's own for what waits in reality and not in the rehearsal: worked off in half the target.

    Such an excess comes from a change of leaders, or from what the miniature does not know. Less than the work of a
    trigger interval is no excess: an executor that comes makes the next batch slower first.
    """
    stage = scaled_stage(observation)
    if stage is None or isnan(stage.backlog) or observation.executors is None:
        return 0.0
    excess = (stage.backlog - float(rehearsal.shadow.waiting.rows.sum())) * costs.service / costs.slots
    if excess <= costs.trigger * max(1.0, observation.executors.observed):
        return 0.0
    return float(np.ceil(excess / (0.5 * target)))


def score(rehearsal: Rehearsal, costs: MeasuredCosts, target: float) -> Score:
    """How a candidate did within the memory.

    Rows that are bound to be late count as such before their batch ends: in an overload, batches take longer and longer.
    """
    first = rehearsal.marks[0]
    done = rehearsal.total.minus(first)
    overdue = rehearsal.shadow.overdue(costs, target)
    rows, length = done.rows + overdue, max(1e-9, rehearsal.total.time - first.time)
    return Score(
        (done.late + overdue) / rows if rows > 0 else 0.0,
        60.0 * done.spent / length,
        3600.0 * done.changes / length,
        length,
        _worst(rehearsal, overdue) / rows if rows > 0 else 0.0,
    )


def _worst(rehearsal: Rehearsal, overdue: float) -> float:
    """Late rows of the minute that had the most of them, the present one included."""
    totals = [mark.late for mark in rehearsal.marks]
    present = rehearsal.total.late - totals[-1] + overdue
    return max([after - before for before, after in pairwise(totals)] + [present])
