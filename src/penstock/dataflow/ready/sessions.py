"""Sessions: rows of a key that follow each other without a long gap, given out when they are over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.dataflow.keyed_state import microseconds_of
from penstock.dataflow.operators import Names, Operator, make_spec, names_of
from penstock.dataflow.output import BadOutput
from penstock.dataflow.ready.event_times import check_seconds, micros, watermark

#: A session in the state: its first and last time as the rows have them, the number of rows, a value for each figure.
Session = list[Any]

#: Digits that a decimal of Spark's has at most, and how many more a sum has than its values.
DIGITS, MORE = 38, 10
#: Python rounds sums of decimals to 28 digits otherwise.
_EXACT = Context(prec=2 * DIGITS)


def _sum(a: Any, b: Any) -> Any:
    return _EXACT.add(a, b) if isinstance(a, Decimal) else a + b


#: How a figure of two sessions is made of theirs; the first and the last value go by time instead.
_COMBINED: dict[str, Callable[[Any, Any], Any]] = {"sum": _sum, "min": min, "max": max}
_WAYS = (*_COMBINED, "first", "last")


def sessions(
    *,
    keys: Names,
    time: str,
    gap: float,
    slack: float = 0.0,
    figures: Mapping[str, tuple[str, str]] | None = None,
) -> Operator:
    """Give out the sessions of each key: rows that come less than ``gap`` seconds after each other, by event time.

    A session is one row with the key columns, ``start``, ``end``, ``rows`` and the figures. It is given out by the first
    micro-batch that begins when event time has come ``gap + slack`` seconds past its end; so rows may be ``slack`` seconds out of
    order. A row that is later, so that a session of its own would be over, goes to the port ``late`` as it is.

    Sums of whole numbers have 64 bits, those of decimals ten digits more than their column, 38 at most. A row with which a
    sum would need more becomes a dead letter.

    Parameters
    ----------
    keys, time
        The key columns; the column of the event time (seconds, or timestamps).
    gap
        Rows this many seconds apart are in different sessions.
    slack
        Seconds by which rows may be out of order.
    figures
        Further columns of a session: name -> (column, "sum" | "min" | "max" | "first" | "last").

    >>> import penstock
    >>> from penstock.dataflow import Reference, sessions
    >>> flow = penstock.Flow("visits")
    >>> clicks = flow.source("clicks", {"user": str, "at": float, "bytes": int})
    >>> visits = clicks.through(sessions(keys="user", time="at", gap=300, figures={"sent": ("bytes", "sum")}))
    >>> _ = visits.sink("visits")
    >>> import pyarrow as pa
    >>> def click(user, at): return {"clicks": pa.table({"user": [user], "at": [at], "bytes": [10]})}
    >>> run = Reference(flow)
    >>> for at in (0.0, 200.0, 900.0): _ = run.run(click("ann", at))
    >>> run.run(click("bob", 901.0))["visits"].to_pylist()
    [{'user': 'ann', 'start': 0.0, 'end': 200.0, 'rows': 2, 'sent': 20}]
    """
    check_seconds("gap", gap, positive=True)
    check_seconds("slack", slack)
    wanted = dict(figures or {})
    for name, (_, how) in wanted.items():
        if how not in _WAYS:
            raise unknown(f"way to make the figure '{name}'", how, _WAYS)
        if name in {"start", "end", "rows", *names_of(keys, "keys")}:
            raise PenstockError(
                f"A session has a column '{name}' already; give the figure '{name}' another name."
            )
    return _Sessions(names_of(keys, "keys"), _Gap(time, micros(gap), micros(slack), wanted))


@dataclass(frozen=True)
class _Gap:
    """What sessions go by; called for a key whose timer is due."""

    time: str
    gap: int
    slack: int
    figures: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __call__(self, key: Mapping[str, Any], state: Any, output: Any) -> None:
        """Give out the sessions that are over."""
        reached = watermark(state, self.slack)
        names = ("start", "end", "rows", *self.figures)
        for session in state["open"]:
            if self.over(session, reached):
                # Earlier versions let sums grow beyond their column: null is better than a flow that cannot go on.
                values = [None if at in self.sums and _too_large(v) else v for at, v in enumerate(session)]
                output.emit({**key, **dict(zip(names, values, strict=True))})
        self.keep(state, [s for s in state["open"] if not self.over(s, reached)])

    def over(self, session: Session, reached: int) -> bool:
        return microseconds_of(session[1]) + self.gap <= reached

    def keep(self, state: Any, sessions: list[Session]) -> None:
        """Sessions that are open, and a timer for the first of them to end; the key is forgotten if there is none."""
        if not sessions:
            state.clear()
            return
        state["open"] = sessions
        state.timer((microseconds_of(sessions[0][1]) + self.gap + self.slack) / 1e6)

    def alone(self, row: Mapping[str, Any]) -> Session:
        made = [row[self.time], row[self.time], 1, *(row[column] for column, _ in self.figures.values())]
        return self.checked(made)

    def apart(self, earlier: Session, later: Session) -> bool:
        return microseconds_of(later[0]) - microseconds_of(earlier[1]) >= self.gap

    def together(self, a: Session, b: Session) -> Session:
        """One session of two that meet; of two rows at one time the one that came first is the earlier."""
        first, last = b if b[0] < a[0] else a, b if b[1] >= a[1] else a
        made = [first[0], last[1], a[2] + b[2]]
        for at, (column, how) in enumerate(self.figures.values(), start=3):
            combined = _COMBINED.get(how)
            if combined is None:
                made.append((first if how == "first" else last)[at])
                continue
            try:
                made.append(b[at] if a[at] is None else a[at] if b[at] is None else combined(a[at], b[at]))
            except TypeError as error:  # no row is to blame for that
                raise PenstockError(
                    f"The column '{column}' has no {how} ({error}); name another one."
                ) from None
        return self.checked(made)

    @cached_property
    def sums(self) -> Mapping[int, str]:
        """Where in a session the sums are, with their names."""
        figures = enumerate(self.figures.items(), start=3)
        return {at: name for at, (name, (_, how)) in figures if how == "sum"}

    def checked(self, session: Session) -> Session:
        """A session whose sums fit their columns; raises where the row that was added is too much."""
        for at, name in self.sums.items():
            if _too_large(session[at]):
                raise BadOutput(
                    f"With this row the sum '{name}' of its session would be {session[at]}, more than its type holds; "
                    "leave it out, or sum up a column of doubles."
                )
        return session


def _too_large(value: Any) -> bool:
    """Whether no column holds a sum: whole numbers have 64 bits, decimals 38 digits."""
    if isinstance(value, Decimal):
        return len(value.as_tuple().digits) > DIGITS
    return isinstance(value, int) and not -(2**63) <= value < 2**63


class _Sessions(Operator):
    def __init__(self, keys: tuple[str, ...], by: _Gap) -> None:
        self.by, self.keys = by, keys
        self.spec = make_spec(
            self.spec,
            {
                "keys": keys,
                "grain": "key",
                "time": by.time,
                "on_timer": by,
                "on_error": "dead-letter",
                "outputs": {"out": self._schema, "late": None},
            },
        )

    @property
    def label(self) -> str:
        return "sessions"

    def _schema(self, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
        (given,) = inputs.values()
        missing = [c for c, _ in self.by.figures.values() if c not in given.names]
        if missing:
            raise unknown("column", missing[0], given.names)
        stamp = given.field(self.by.time).type
        columns = [given.field(k) for k in self.keys]
        columns += [pa.field("start", stamp), pa.field("end", stamp), pa.field("rows", pa.int64())]
        columns += [
            pa.field(name, _wide(given.field(column).type) if how == "sum" else given.field(column).type)
            for name, (column, how) in self.by.figures.items()
        ]
        return pa.schema(columns)

    def invoke(self, inputs: Any, state: Any, output: Any) -> None:
        by, reached = self.by, watermark(state, self.by.slack)
        open_: list[Session] = state.get("open", [])
        for row in inputs:
            if microseconds_of(row[by.time]) + by.gap <= reached:
                output.emit(row, port="late")
                continue
            one = by.alone(row)
            near = [s for s in open_ if not (by.apart(s, one) or by.apart(one, s))]
            if near:
                open_ = [s for s in open_ if s not in near]
                for session in near:
                    one = by.together(session, one)
            open_.append(one)
            open_.sort(key=lambda s: s[0])
        by.keep(state, open_)


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type of a sum: that which Spark gives it.

    >>> print(_wide(pa.int32()), _wide(pa.decimal128(10, 2)), _wide(pa.decimal128(30, 0)))
    int64 decimal128(20, 2) decimal128(38, 0)
    """
    if pa.types.is_decimal128(kind):
        return pa.decimal128(min(DIGITS, kind.precision + MORE), kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else pa.float64() if pa.types.is_floating(kind) else kind
