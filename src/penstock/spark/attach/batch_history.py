"""Micro-batches of a query as its progress reports tell them.

Rows of batch k arrived between the starts of batch k-1 and batch k (the *gap*), then waited for the batch to end:

    delay of a row = (start_k - its arrival) + duration_k,   arrival spread over the gap before start_k
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf, isnan, nan
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.observation import UNKNOWN, Latency


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """One finished micro-batch; times in seconds since the epoch."""

    number: int
    start: float
    duration: float
    rows: int
    gap: float  # seconds since the start before; nan for the first one, whose rows came at unknown times
    behind: float = nan  # rows that the sources still had, where their offsets tell
    state_bytes: float = 0.0
    working: float = 0.0  # seconds of the duration in which Spark ran the batch's jobs
    busy: float = nan  # task time, summed over the slots; set once it was read
    slots: float = nan  # slots there were
    partitions: float = nan  # partitions of Kafka, each a task, where nothing else makes tasks

    @property
    def end(self) -> float:
        """When its results were committed."""
        return self.start + self.duration


def from_progress(progress: Mapping[str, Any], before: SeenBatch | None = None) -> SeenBatch:
    """Read a progress report (as ``StreamingQueryProgress.json`` has it)."""
    start = _epoch(progress["timestamp"])
    durations = progress.get("durationMs", {})
    duration = durations.get("triggerExecution", progress.get("batchDuration", 0)) / 1e3
    behind = [rows_behind(source) for source in progress.get("sources", ())]
    return SeenBatch(
        number=int(progress["batchId"]),
        start=start,
        duration=duration,
        rows=int(progress.get("numInputRows") or 0),
        gap=max(1e-3, start - before.start) if before is not None else nan,
        behind=sum(behind) if behind and not any(map(isnan, behind)) else nan,
        state_bytes=float(sum(s.get("memoryUsedBytes", 0) for s in progress.get("stateOperators", ()))),
        working=durations.get("addBatch", 0) / 1e3,
        partitions=_partitions(progress),
    )


def _partitions(progress: Mapping[str, Any]) -> float:
    """Partitions of the topics that a query reads; nan where its state or other sources make tasks of their own."""
    ends = [_parsed(source.get("endOffset")) for source in progress.get("sources", ())]
    if not ends or progress.get("stateOperators"):
        return nan
    topics = [end.values() if isinstance(end, dict) else [None] for end in ends]
    counts = [len(parts) if isinstance(parts, dict) else nan for some in topics for parts in some]
    return float(sum(counts)) or nan


def rows_behind(source: Mapping[str, Any]) -> float:
    """How many rows a source had beyond what the batch took; ``nan`` where its offsets do not count rows.

    Kafka's offsets are counts of records by topic and partition. Offsets of other sources are numbers of files,
    seconds or things of their own, and say nothing about rows.

    >>> rows_behind({"endOffset": {"t": {"0": 10, "1": 5}}, "latestOffset": {"t": {"0": 12, "1": 5}}})
    2.0
    >>> rows_behind({"endOffset": {"logOffset": 3}, "latestOffset": None})
    nan
    """
    end, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
    if not isinstance(end, dict) or not isinstance(latest, dict) or not end:
        return nan
    total = 0.0
    for topic, partitions in latest.items():
        if not isinstance(partitions, dict):
            return nan
        taken = end.get(topic, {})
        total += sum(max(0, int(n) - int(taken.get(p, 0))) for p, n in partitions.items())
    return total


def arrival_rate(batches: Sequence[SeenBatch], before: SeenBatch | None = None) -> float:
    """Rows a second that reached the sources: taken rows plus the growth of what is left behind.

    The first batch after a restart has no gap: what had gathered meanwhile came at unknown times and does not count.
    """
    pairs = zip([before or batches[0], *batches], batches, strict=False) if batches else ()
    timed = [(earlier, b) for earlier, b in pairs if not isnan(b.gap)]
    if not timed:
        return nan
    seconds, rows = sum(b.gap for _, b in timed), float(sum(b.rows for _, b in timed))
    growth = [b.behind - earlier.behind for earlier, b in timed]
    return max(0.0, (rows + sum(g for g in growth if not isnan(g))) / seconds)


def backlog(last: SeenBatch, rate: float, trigger: float, now: float, settled: float = nan) -> float:
    """Rows that wait beyond those of one trigger, at ``now`` after the last batch that was reported.

    A batch begins when its trigger is due and the one before has ended, with all rows that are there. It has too many where
    the one before took longer than the trigger, and rows wait too long from when it should have ended itself. What the
    sources tell to have been left comes to that.

    Where batches follow each other at once (a trigger of 0), what came during the last batch is no backlog: the next one
    takes it. There are too many rows where batches take longer than those that they settle at (``settled``, infinite where
    they grow without end), or than the one before.

    >>> batch = SeenBatch(7, start=100.0, duration=2.1, rows=200, gap=2.0)
    >>> round(backlog(batch, 100.0, trigger=2.0, now=104.0)), round(backlog(batch, 100.0, trigger=2.0, now=105.1))
    (10, 110)
    >>> [backlog(SeenBatch(7, 100.0, 4.0, 400, gap=4.0), 100.0, 0.0, 104.0, settled) for settled in (4.0, 3.0, inf)]
    [0.0, 100.0, 300.0]
    """
    allowed = _allowed(last, trigger, settled)
    began = max(last.end, last.start + trigger)
    seconds = max(0.0, last.duration - allowed) + max(0.0, now - began - allowed)
    return (seconds * rate if rate > 0 else 0.0) + (0.0 if isnan(last.behind) else last.behind)


def _allowed(last: SeenBatch, trigger: float, settled: float) -> float:
    """Seconds that a batch may take without falling behind."""
    if trigger > 0:
        return max(trigger, 1.0)
    if settled == inf:
        return 1.0
    return max(1.0, min((s for s in (settled, last.gap) if not isnan(s)), default=last.duration))


_SPREAD = (np.arange(20) + 0.5) / 20


def latency(
    batches: Iterable[SeenBatch], rate: float = nan, trigger: float = nan, before: SeenBatch | None = None
) -> Latency:
    """Delays of the rows of these batches, their arrivals spread evenly over the time in which they must have come.

    Rows that a source held back for a limit per batch waited longer, by what was behind over the rate. ``before`` is the
    batch before these; without a ``trigger`` arrivals are spread over the whole gap.
    """
    every = list(batches)
    within = np.nan_to_num(_came_within(every, trigger, before))
    filled = [replace(b, gap=float(w)) for b, w in zip(every, within, strict=True) if b.rows > 0]
    if not filled:
        return UNKNOWN
    held = [b.behind / rate if b.behind > 0 and rate > 0 else 0.0 for b in filled]
    delays = np.concatenate([b.duration + h + b.gap * _SPREAD for b, h in zip(filled, held, strict=True)])
    weights = np.repeat([b.rows / 20 for b in filled], 20)
    order = np.argsort(delays)
    delays, share = delays[order], np.cumsum(weights[order]) / weights.sum()
    p50, p95, p99 = (float(delays[np.searchsorted(share, q - 1e-12)]) for q in (0.5, 0.95, 0.99))
    largest = max(b.duration + h + b.gap for b, h in zip(filled, held, strict=True))
    return Latency(float(np.average(delays, weights=weights[order])), p50, p95, p99, largest)


def _came_within(batches: Sequence[SeenBatch], trigger: float, before: SeenBatch | None = None) -> Floats:
    """Seconds before its start in which the rows of each batch must have come; nan for the first of a run.

    That is the gap, or the trigger interval where the gap is longer, since an earlier trigger would have taken them. A
    batch that took longer than the trigger let rows wait: they may have come at any time of it.
    """
    gaps = np.array([b.gap for b in batches])
    if not batches or not trigger > 0:
        return gaps
    earlier = np.array([b.duration for b in [before or batches[0], *batches[:-1]]])
    within: Floats = np.minimum(gaps, np.maximum(earlier, trigger))
    return within


@dataclass(frozen=True, slots=True, eq=False)
class ArrivalTimes:
    """Times between neighbouring arrivals; each arrival stands for ``rows`` rows."""

    gaps: Floats
    rows: float = 1.0


def arrival_times(batches: Sequence[SeenBatch], trigger: float = 0.0, most: int = 50_000) -> ArrivalTimes:
    """The arrival process at the grain of the batches, in at most so many arrivals.

    Progress tells counts, not instants: the rows of a batch are spread evenly over the time in which they must have
    come, the gap before it, or its last trigger interval where the gap is longer (an earlier trigger would have taken
    them). Bursts shorter than that are not seen; they make no difference to a row that waits for its batch anyway.

    Of a fast stream every ``rows``-th arrival is taken and stands for so many. Time is not touched by that, so what the
    stream does over minutes still takes minutes.
    """
    timed = [b for b in batches if not isnan(b.gap)]
    total = sum(b.rows for b in timed)
    if not total:
        return ArrivalTimes(np.zeros(0))
    gaps, within = np.array([b.gap for b in timed]), _came_within(batches, trigger)
    spread = within[~np.isnan(within)]
    ends, counts = np.cumsum(gaps), np.cumsum([b.rows for b in timed])
    knots = np.column_stack([ends - spread, ends]).ravel()
    levels = np.column_stack([np.concatenate([[0], counts[:-1]]), counts]).ravel()
    each = max(1.0, total / most)
    wanted = np.arange(1, int(total / each + 1e-9) + 1) * each
    rising = np.maximum.accumulate(levels + np.arange(len(levels)) * 1e-9)
    times = np.interp(wanted, rising, np.maximum.accumulate(knots))
    return ArrivalTimes(np.diff(times, prepend=0.0), float(each))


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _parsed(offset: Any) -> Any:
    if isinstance(offset, str):
        try:
            return json.loads(offset)
        except ValueError:
            return None
    return offset
