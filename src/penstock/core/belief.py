"""Which event times are believed: one wrong clock must not move the time of a whole stream.

A row more than ``ahead`` in front of the stream is not believed, nor one more than ``behind`` it. The stream is at the
newest time that was believed; a stream that goes with the clock of the wall may be anywhere up to it, so a gap in a
live source is no jump. Rows further ahead are *sightings*. Times with no gap longer than ``ahead`` between them make a
cluster, and a cluster is confirmed by many rows:

    rows(c)  >=  MANY                               and
    rows(c)  >=  1/2 of all rows from the first of c on

All up to the last confirmed cluster is believed.

A source that has moved on passes: nearly all rows after the first one are there too. A device with a wrong clock does
not: its rows stand among those of the others. What is confirmed is believed in the very batch that confirms it. Few
rows a batch are added up over batches.

In a first batch nothing is known. The largest cluster is believed (where none has many rows: the largest that is not in
the future), and those above it as above; so a recording of 2013 is as good as a stream of today.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Ints

Times = Ints

#: So many rows confirm a jump, if they are the majority since it began.
MANY = 10
#: Clusters that a partition tells of, and that are remembered from batch to batch: those with the most rows.
MOST_TOLD, MOST_DOUBTED = 4096, 64

DAY = 86_400_000_000
NO_TIME = -(2**62)


@dataclass(frozen=True)
class Limits:
    """How far ahead of the stream and behind it a row is believed, in microseconds."""

    ahead: int = DAY
    behind: int = DAY


@dataclass(frozen=True)
class Sighting:
    """Rows with times from ``low`` to ``high`` without a long gap, and all rows since the first of them came."""

    low: int
    high: int
    rows: int
    since: int


Sightings = tuple[Sighting, ...]


@dataclass(frozen=True)
class Belief:
    """What is remembered from batch to batch: is the stream live, how far does a batch reach, what was not confirmed."""

    live: bool = False
    stride: int = 0
    doubted: Sightings = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "doubted": [list(astuple(s)) for s in self.doubted]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Belief":
        """The value that ``to_json`` gave."""
        return cls(**{**value, "doubted": tuple(Sighting(*s) for s in value["doubted"])})

    def latest(self, newest: int | None, now: int, limits: Limits) -> int | None:
        """Up to which time rows are believed at first sight; None: nothing is known, so all are looked at.

        >>> Belief(live=True).latest(newest=100, now=900, limits=Limits(ahead=50)), Belief().latest(100, 900, Limits(50))
        (950, 150)
        """
        if newest is None:
            return None
        if self.live and newest <= now + limits.ahead:
            return now + limits.ahead
        return newest + limits.ahead + self.stride


@dataclass(frozen=True)
class Judgement:
    """Up to which time rows of a batch are believed (None: not one is), and what was not confirmed."""

    latest: int | None
    doubted: Sightings = ()

    def overturns(self, latest: int | None, told: Sequence[Sightings]) -> bool:
        """Whether rows must be looked at again, of which those up to ``latest`` (None: all) were believed."""
        if latest is None:
            return any(s.high > self.bound for some in told for s in some)
        return self.bound > latest

    @property
    def bound(self) -> int:
        """The latest time that is believed, before all times where none is."""
        return NO_TIME if self.latest is None else self.latest


def judge(
    told: Sequence[Sightings], rows: int, belief: Belief, latest: int | None, now: int, limits: Limits
) -> Judgement:
    """Judge the sightings of a batch of ``rows`` rows, those of each partition by themselves.

    ``latest`` is what was believed at first sight. In a first batch (None) the sightings are those of all rows.

    >>> many, one = Sighting(50, 60, rows=20, since=25), Sighting(9_000, 9_000, rows=1, since=30)
    >>> judge([(many, one)], 100, Belief(), latest=40, now=0, limits=Limits(ahead=10)).latest
    60
    """
    before = tuple(replace(s, since=s.since + rows) for s in belief.doubted)
    clusters = _joined(before, told, limits.ahead)
    if latest is None:
        base = _base(clusters, now + limits.ahead)
        if base is None:
            return Judgement(None, _still_doubted(clusters))
        latest = base.high
    above = [c.high for c in clusters if c.high > latest and confirmed(c.rows, c.since)]
    highest = max(above, default=latest)
    return Judgement(highest, _still_doubted([c for c in clusters if c.low > highest]))


def confirmed(rows: int, since: int) -> bool:
    """Whether so many rows, of all that came since the first of them, confirm a jump."""
    return rows >= MANY and 2 * rows >= since


def learned(
    belief: Belief, judgement: Judgement, before: int | None, newest: int | None, now: int, ahead: int
) -> Belief:
    """What is remembered after a batch that moved the newest time, as it was ``before``, to ``newest``."""
    if newest is None:
        return replace(belief, doubted=judgement.doubted)
    moved = 0 if before is None else newest - before
    # A recording read in large steps moves on by more than ``ahead`` in each; to confirm every one costs a second pass.
    jumped = before is not None and moved > ahead + belief.stride
    stride = moved if jumped else min(belief.stride, 2 * moved) if moved else belief.stride
    return Belief(abs(now - newest) <= ahead, stride, judgement.doubted)


def sighted(times: Times, ahead: int, begin: int = 0, chosen: NDArray[np.bool_] | None = None) -> Sightings:
    """The clusters of some times in order of arrival; ``since`` is the place of the first, counted from ``begin``."""
    places = np.arange(len(times)) if chosen is None else np.flatnonzero(chosen)
    if not len(places):
        return ()
    some = times if chosen is None else times[places]
    low, high = int(some.min()), int(some.max())
    if high - low <= ahead:  # one cluster, as nearly always
        return (Sighting(low, high, len(places), int(places[0]) + begin),)
    order = np.argsort(some, kind="stable")
    ordered = some[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered) > ahead) + 1])
    ends = np.append(starts[1:], len(ordered)) - 1
    firsts = np.minimum.reduceat(places[order], starts) + begin
    columns = (ordered[starts], ordered[ends], ends - starts + 1, firsts)
    return _most(
        [Sighting(*values) for values in zip(*(c.tolist() for c in columns), strict=True)], MOST_TOLD
    )


class Lookout:
    """Gathers the sightings of one partition, chunk by chunk: all rows, or those after ``latest``."""

    def __init__(self, ahead: int, latest: int | None) -> None:
        self._ahead, self._latest = ahead, latest
        self._found: Sightings = ()
        self.rows = 0

    def see(self, times: Times) -> NDArray[np.bool_] | None:
        """Note the rows of a chunk; which of them are too far ahead, None where none is."""
        begin, self.rows = self.rows, self.rows + len(times)
        if not len(times):
            return None
        if self._latest is None:
            self._add(sighted(times, self._ahead, begin))
            return None
        if int(times.max()) <= self._latest:
            return None
        over = times > self._latest
        self._add(sighted(times, self._ahead, begin, over))
        return over

    def _add(self, some: Sightings) -> None:
        # Here ``since`` is the place of the first row, so of two the smaller one counts.
        merged: list[Sighting] = []
        for s in sorted((*self._found, *some), key=lambda s: s.low):
            last = merged[-1] if merged else None
            if last is not None and s.low - last.high <= self._ahead:
                both = (max(last.high, s.high), last.rows + s.rows, min(last.since, s.since))
                merged[-1] = Sighting(last.low, *both)
            else:
                merged.append(s)
        self._found = _most(merged, MOST_TOLD)

    def told(self) -> Sightings:
        """The sightings of the whole partition."""
        return tuple(replace(s, since=self.rows - s.since) for s in self._found)


def too_far_behind(times: Times, seen: int | None, behind: int) -> NDArray[np.bool_] | None:
    """Which rows, in order of arrival, are more than ``behind`` older than the newest before them; None where none is.

    >>> import numpy as np
    >>> too_far_behind(np.array([5, 100, 60, 40]), seen=None, behind=50).tolist()
    [False, False, False, True]
    """
    if not len(times):
        return None
    most = int(times.max()) if seen is None else max(int(times.max()), seen)
    if most - int(times.min()) <= behind:
        return None
    highest = np.maximum.accumulate(times)
    if seen is not None:
        np.maximum(highest, seen, out=highest)
    bad: NDArray[np.bool_] = highest - times > behind
    return bad if bad.any() else None


def _base(clusters: Sequence[Sighting], future: int) -> Sighting | None:
    """Where a stream is of which nothing is known."""
    if any(c.rows >= MANY for c in clusters):
        return max(clusters, key=lambda c: (c.rows, c.low))
    past = [c for c in clusters if c.low <= future]
    return max(past, key=lambda c: (c.rows, c.low), default=None)


def _joined(before: Sightings, told: Sequence[Sightings], ahead: int) -> list[Sighting]:
    """The clusters of all partitions and of earlier batches together, in order of time."""
    marks = [(s, -1) for s in before] + [(s, p) for p, some in enumerate(told) for s in some]
    clusters: list[Sighting] = []
    since: dict[int, int] = {}
    for mark, partition in sorted(marks, key=lambda m: m[0].low):
        last = clusters[-1] if clusters else None
        if last is None or mark.low - last.high > ahead:
            since = {}
            last = Sighting(mark.low, mark.high, 0, 0)
            clusters.append(last)
        since[partition] = max(since.get(partition, 0), mark.since)
        # What began in an earlier batch has all rows of this one after it; otherwise partitions count for themselves.
        total = since[-1] if -1 in since else sum(since.values())
        clusters[-1] = Sighting(last.low, max(last.high, mark.high), last.rows + mark.rows, total)
    return clusters


def _still_doubted(clusters: Sequence[Sighting]) -> Sightings:
    """What later rows may confirm: not what most rows since have contradicted."""
    return _most([c for c in clusters if 2 * c.rows >= c.since], MOST_DOUBTED)


def _most(some: Sequence[Sighting], most: int) -> Sightings:
    if len(some) > most:
        some = sorted(sorted(some, key=lambda s: -s.rows)[:most], key=lambda s: s.low)
    return tuple(some)
