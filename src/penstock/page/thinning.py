"""Figures over time that do not grow with the run: points that are close together become one.

A point of a :class:`Scale` covers ``step`` seconds. The scale of a whole run begins with a point for every observation; each
time it is full, its step doubles and neighbours are joined. The scale of the recent past keeps its step and drops
what is older than its span. Both tell what is new since a mark that a reader keeps, so that a reader is a plain mirror.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Any


class Join(Enum):
    """What becomes of the figures of two points that are joined."""

    MEAN = "mean"  # weighted by the time they stand for
    MOST = "most"
    LAST = "last"


@dataclass(slots=True)
class _Bin:
    """Figures by name, each with the seconds that it stands for."""

    time: float
    values: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, values: Mapping[str, tuple[float, float]], joins: "Joins") -> None:
        """Join later figures to these."""
        for name, (value, weight) in values.items():
            before = self.values.get(name)
            if before is None:
                self.values[name] = (value, weight)
                continue
            known, sofar = before
            how = joins.of(name)
            if how is Join.MEAN:
                total = sofar + weight
                value = (known * sofar + value * weight) / total if total > 0 else value
            elif how is Join.MOST:
                value = max(known, value)
            self.values[name] = (value, sofar + weight)


@dataclass(frozen=True)
class Joins:
    """How figures are joined, by the part of their name before the first ``|``; the mean unless told."""

    kinds: Mapping[str, Join]

    def of(self, name: str) -> Join:
        """The way of one figure."""
        return self.kinds.get(name.partition("|")[0], Join.MEAN)


@dataclass(frozen=True)
class Mark:
    """How far a reader has come in a scale."""

    generation: int = -1
    last: int = -1
    additions: int = -1


#: Where a reader begins.
START = Mark()


class Scale:
    """Figures over time, in at most ``room`` points.

    >>> scale = Scale(Joins({"most": Join.MOST}), room=4)
    >>> for t in range(100):
    ...     scale.add(float(t), 1.0, {"mean": float(t), "most": float(t)})
    >>> news, mark = scale.since(Mark())
    >>> len(news["columns"]["time"]) <= 4, news["columns"]["most"][-1]
    (True, 99.0)
    >>> scale.since(mark)[0] is None
    True
    """

    def __init__(self, joins: Joins, room: int = 1_000, step: float = 0.0, span: float = inf) -> None:
        self._joins, self._room, self._step, self._span = joins, max(room, 4), step, span
        self._points: list[_Bin] = []
        self._first = self._generation = self._additions = 0

    def add(self, time: float, weight: float, values: Mapping[str, float]) -> None:
        """Take the figures of an observation; times do not go back."""
        weighted = {name: (value, max(weight, 1e-9)) for name, value in values.items()}
        last = self._points[-1] if self._points else None
        self._additions += 1
        if last is not None and last.values and time < last.time + self._step:
            last.take(weighted, self._joins)
            return
        self._points.append(_Bin(time, weighted))
        while self._points[0].time < time - self._span:
            del self._points[0]
            self._first += 1
        if len(self._points) > self._room:
            self._halve()

    def gap(self, time: float) -> None:
        """Nothing is known between the points before and after; a curve is not drawn across."""
        if self._points:
            self.add(time, 0.0, {})

    def since(self, mark: Mark) -> tuple[dict[str, Any] | None, Mark]:
        """What a reader lacks, None where it lacks nothing, and its next mark."""
        now = Mark(self._generation, self._first + len(self._points) - 1, self._additions)
        if mark == now:
            return None, now
        whole = mark.generation != self._generation
        begin = self._first if whole else max(mark.last, self._first)  # the last one may have grown
        return {
            "generation": self._generation,
            "first": self._first,
            "from": begin,
            "columns": _columns(self._points[begin - self._first :]),
        }, now

    def _halve(self) -> None:
        span = self._points[-1].time - self._points[0].time
        self._step = max(2 * self._step, 2 * span / self._room)
        kept: list[_Bin] = []
        for point in self._points:
            if kept and kept[-1].values and point.values and point.time < kept[-1].time + self._step:
                kept[-1].take(point.values, self._joins)
            else:
                kept.append(point)
        self._points = kept[-self._room // 2 - 1 :] if len(kept) > self._room else kept
        self._first, self._generation = 0, self._generation + 1


def _columns(points: list[_Bin]) -> dict[str, list[float | None]]:
    """The points as columns, null where one has no figure."""
    names = dict.fromkeys(name for point in points for name in point.values)
    columns: dict[str, list[float | None]] = {"time": [round(p.time, 3) for p in points]}
    for name in names:
        columns[name] = [_short(p.values[name][0]) if name in p.values else None for p in points]
    return columns


def _short(value: float) -> float:
    """Five digits are more than a curve shows."""
    return float(f"{value:.5g}")


class Tail:
    """The newest rows of a list; older ones are dropped and counted.

    >>> tail = Tail(room=2)
    >>> for row in "abc":
    ...     tail.append(row)
    >>> tail.since(0)
    {'first': 1, 'from': 1, 'rows': ['b', 'c']}
    >>> tail.since(3) is None
    True
    """

    def __init__(self, room: int) -> None:
        self._room, self._rows, self._first = room, list[Any](), 0

    def append(self, row: Any) -> None:
        """One more."""
        self._rows.append(row)
        if len(self._rows) > self._room:
            del self._rows[0]
            self._first += 1

    @property
    def last(self) -> Any:
        """The newest row, or None."""
        return self._rows[-1] if self._rows else None

    @property
    def end(self) -> int:
        """How many there have been."""
        return self._first + len(self._rows)

    def since(self, begin: int) -> dict[str, Any] | None:
        """The rows from number ``begin`` on; None where there are none."""
        if begin >= self.end:
            return None
        begin = max(begin, self._first)
        return {"first": self._first, "from": begin, "rows": self._rows[begin - self._first :]}
