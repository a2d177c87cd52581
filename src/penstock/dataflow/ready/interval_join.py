"""A join by key and time: each row with the rows of the other stream that are near it in event time."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.dataflow.keyed_state import microseconds_of
from penstock.dataflow.operators import Names, Operator, make_spec, names_of
from penstock.dataflow.ready.event_times import check_seconds, micros, watermark


def interval_join(
    *,
    keys: Names,
    time: str,
    lower: float,
    upper: float,
    slack: float = 0.0,
    outer: bool = False,
) -> Operator:
    """Join two streams by key where a right row's time is from ``lower`` to ``upper`` seconds after a left row's.

    ``left.through(interval_join(...), right)``. A pair is given out when its later row comes, with the columns of the left row and those of
    the right one but for the keys; where both have a column, the right one's is called ``right_NAME``. Rows wait for partners
    until event time has passed the interval by ``slack``, the seconds by which rows may be out of order.
    With ``outer`` a left row whose time is over without a partner is given out alone, with nulls.

    >>> import penstock, pyarrow as pa
    >>> from penstock.dataflow import Reference, interval_join
    >>> flow = penstock.Flow("answers")
    >>> asked = flow.source("asked", {"id": int, "at": float})
    >>> answered = flow.source("answered", {"id": int, "at": float, "code": int})
    >>> _ = asked.through(interval_join(keys="id", time="at", lower=0, upper=5), answered).sink("pairs")
    >>> run = Reference(flow)
    >>> _ = run.run({"asked": pa.table({"id": [1, 2], "at": [0.0, 0.0]})})
    >>> answers = {"answered": pa.table({"id": [1, 2], "at": [3.0, 9.0], "code": [200, 200]})}
    >>> run.run(answers)["pairs"].to_pylist()
    [{'id': 1, 'at': 0.0, 'right_at': 3.0, 'code': 200}]
    """
    if not (isfinite(lower) and isfinite(upper) and lower <= upper):
        raise PenstockError(
            f"An interval from lower={lower} to upper={upper} seconds holds nothing; give lower <= upper."
        )
    check_seconds("slack", slack)
    within = _Interval(time, micros(lower), micros(upper), micros(slack), outer)
    return _IntervalJoin(names_of(keys, "keys"), within)


@dataclass(frozen=True)
class _Interval:
    """When two rows are partners, and how long rows wait; called for a key whose timer is due.

    The state of a key is ``{"left": [[row, joined], ...], "right": [...]}`` in order of arrival.
    """

    time: str
    lower: int
    upper: int
    slack: int
    outer: bool

    def __call__(self, key: Mapping[str, Any], state: Any, output: Any) -> None:
        """Let go of the rows that no partner can come for any more."""
        reached = watermark(state, self.slack)
        for row, joined in state["left"]:
            if self.outer and not joined and self.last("left", row) < reached:
                output.emit(_Nulls(row))
        for side in ("left", "right"):
            state[side] = [kept for kept in state[side] if self.last(side, kept[0]) >= reached]
        self.wake(state)

    def at(self, row: Mapping[str, Any]) -> int:
        return microseconds_of(row[self.time])

    def meet(self, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
        return self.lower <= self.at(right) - self.at(left) <= self.upper

    def last(self, side: str, row: Mapping[str, Any]) -> int:
        """The last time that a partner of a row can have."""
        return self.at(row) + (self.upper if side == "left" else -self.lower)

    def wake(self, state: Any) -> None:
        """A timer for the first row whose time will be over; the key is forgotten if none waits."""
        ends = [self.last(side, kept[0]) for side in ("left", "right") for kept in state[side]]
        if not ends:
            state.clear()
            return
        # Strictly later than the last time, in whole microseconds.
        state.timer((min(ends) + self.slack + 1) / 1e6)


class _Nulls(dict[str, Any]):
    """A left row without a partner: its own columns, and null for every other."""

    def __missing__(self, _column: str) -> None:
        return None


class _IntervalJoin(Operator):
    def __init__(self, keys: tuple[str, ...], within: _Interval) -> None:
        self.keys, self.within = keys, within
        self.names: dict[str, str] = {}
        self.spec = make_spec(
            self.spec,
            {
                "keys": keys,
                "inputs": ["left", "right"],
                "grain": "key",
                "time": within.time,
                "on_timer": within,
                "output": self._schema,
            },
        )

    @property
    def label(self) -> str:
        return "interval_join"

    def initialize(self, context: Any) -> None:
        self.names = self._names(context.inputs)

    def _names(self, inputs: Mapping[str, pa.Schema]) -> dict[str, str]:
        """The right columns that are given out, with the names they get."""
        taken = set(inputs["left"].names)
        return {c: f"right_{c}" if c in taken else c for c in inputs["right"].names if c not in self.keys}

    def _schema(self, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
        names, right = self._names(inputs), inputs["right"]
        twice = set(names.values()) & set(inputs["left"].names)
        if twice:
            raise PenstockError(f"both streams would give the column '{min(twice)}'; rename one")
        return pa.schema([*inputs["left"], *(right.field(c).with_name(n) for c, n in names.items())])

    def invoke(self, inputs: Any, state: Any, output: Any) -> None:
        left, right = state.setdefault("left", []), state.setdefault("right", [])
        for row in inputs["left"]:
            partners = [kept for kept in right if self.within.meet(row, kept[0])]
            for partner in partners:
                output.emit(self._pair(row, partner[0]))
            left.append([row, bool(partners)])
        for row in inputs["right"]:
            for kept in left:
                if self.within.meet(kept[0], row):
                    kept[1] = True
                    output.emit(self._pair(kept[0], row))
            right.append([row, True])
        self.within.wake(state)

    def _pair(self, left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
        return {**left, **{name: right[column] for column, name in self.names.items()}}
