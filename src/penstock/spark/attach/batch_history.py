"""Micro-batches of a query as its progress reports tell them.

Rows of batch k arrived between the starts of batch k-1 and batch k (the *gap*), then waited for the batch to end:

    delay of a row = (start_k - its arrival) + duration_k,   arrival spread over the gap before start_k
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import isnan, nan
from typing import Any

import numpy as np

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
    )


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
    """Rows a second that reached the sources: taken rows plus the growth of what is left behind."""
    timed = [b for b in batches if not isnan(b.gap)]
    if not timed:
        return nan
    seconds, rows = sum(b.gap for b in timed), float(sum(b.rows for b in timed))
    earlier = before if before is not None else batches[0]
    grown = batches[-1].behind - earlier.behind
    return max(0.0, (rows + (0.0 if isnan(grown) else grown)) / seconds)


_SPREAD = (np.arange(20) + 0.5) / 20


def latency(batches: Iterable[SeenBatch], rate: float = nan) -> Latency:
    """Delays of the rows of these batches, their arrivals spread evenly over each gap.

    Rows that a source held back for a limit per batch waited longer, by what was behind over the rate.
    """
    filled = [replace(b, gap=0.0) if isnan(b.gap) else b for b in batches if b.rows > 0]
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


def interarrivals(
    batches: Sequence[SeenBatch], most: int = 50_000
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Inter-arrival times at the grain of the batches: ``gap / rows``, once for each row, the most recent ones.

    Progress tells counts, not instants. Bursts shorter than a gap are not seen; they make no difference to a row
    that waits for its batch anyway.
    """
    filled = [b for b in batches if b.rows > 0 and not isnan(b.gap)]
    counts = np.array([b.rows for b in filled], dtype=np.int64)
    times = np.array([b.gap / b.rows for b in filled])
    # A fast stream is thinned alike everywhere, which keeps the shape of its bursts.
    keep = min(1.0, most / max(1, counts.sum()))
    counts = np.maximum(1, np.round(counts * keep).astype(np.int64))
    return np.repeat(times, counts)


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _parsed(offset: Any) -> Any:
    if isinstance(offset, str):
        try:
            return json.loads(offset)
        except ValueError:
            return None
    return offset
