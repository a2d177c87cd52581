"""Call an operator's code, in either grain, and find the tuple to blame when it raises.

A call that raises is taken back (state and output) and made again on halves of its tuples, in their order, until the
tuple that raises stands alone: it is shown, or put aside where the operator says so.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.dataflow.output import Output
from penstock.dataflow.rows import Rows
from penstock.dataflow.state import FREE, KeyedState

if TYPE_CHECKING:
    from penstock.dataflow.invoke import Task

_SHOWN = 300


@dataclass(frozen=True)
class DeadRows:
    """Tuples that were put aside: whose, which, why."""

    operator: str
    rows: pa.Table
    reason: str


def call(
    task: "Task",
    rows: Mapping[str, Rows],
    state: KeyedState | None,
    output: Output,
    firings: NDArray[np.int64] | None = None,
) -> list[DeadRows]:
    """Hand the tuples to the operator; what had to be put aside is given back."""
    if not any(len(r) for r in rows.values()):
        return []
    caller = _Caller(task, state, output, firings)
    caller.attempt(dict(rows))
    return caller.dead


@dataclass(frozen=True)
class _Call:
    """One call of an operator's code: the tuples by port, the state, where output goes, firings by key."""

    task: "Task"
    rows: dict[str, Rows]
    state: KeyedState | None
    output: Output
    firings: NDArray[np.int64] | None


class _Caller:
    def __init__(
        self,
        task: "Task",
        state: KeyedState | None,
        output: Output,
        firings: NDArray[np.int64] | None,
    ) -> None:
        self.task, self.state, self.output, self.firings = task, state, output, firings
        self.make = _by_key if task.spec.grain == "key" else _by_table
        self.dead: list[DeadRows] = []

    def attempt(self, rows: dict[str, Rows]) -> None:
        """One call, or several on parts where it raises."""
        mark = self.output.mark()
        # Going back needs a copy, and copying every call is only paid for where tuples may be put aside.
        twin = (
            self.state.copy() if self.state is not None and self.task.spec.on_error == "dead-letter" else None
        )
        try:
            self.make(_Call(self.task, rows, self.state, self.output, self.firings))
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - an operator is user code
            if self.task.spec.on_error == "fail":
                self._fail(rows, error)
            self.output.back_to(mark)
            if twin is not None and self.state is not None:
                self.state.restore(twin)
            self._part(rows, error)

    def _part(self, rows: dict[str, Rows], error: Exception) -> None:
        halves = _halves(rows, whole_keys=self.firings is not None or len(rows) > 1)
        if halves is None:
            self.dead += [
                DeadRows(self.task.context.name, r.table, _told(error)) for r in rows.values() if len(r)
            ]
            return
        for half in halves:
            self.attempt(half)

    def _fail(self, rows: dict[str, Rows], error: Exception) -> None:
        """Look for the smallest part that raises, on copies, and tell it."""
        blame = rows
        while (halves := _halves(blame, whole_keys=self.firings is not None or len(rows) > 1)) is not None:
            culprit = next((h for h in halves if self._raises(h)), None)
            if culprit is None:
                break
            blame = culprit
        shown = {p: r.lists() for p, r in blame.items() if len(r)}
        told = str(next(iter(shown.values()))[0] if len(shown) == 1 else {p: r[0] for p, r in shown.items()})
        raise PenstockError(
            f"Operator '{self.task.context.name}' failed with {_told(error)} on the tuple {told[:_SHOWN]}; "
            "mend the operator, or let such tuples be put aside with on_error='dead-letter'."
        ) from error

    def _raises(self, rows: dict[str, Rows]) -> bool:
        trial = Output(self.task.context.name, self.task.context.outputs)
        state = None if self.state is None else self.state.copy()
        try:
            self.make(_Call(self.task, rows, state, trial, self.firings))
        except Exception:  # noqa: BLE001 - an operator is user code
            return True
        return False


def _by_table(call: _Call) -> None:
    task, rows, state, output = call.task, call.rows, call.state, call.output
    only = next(iter(rows.values()))
    output.expect(only.positions if len(rows) == 1 else None, single=False)
    task.operator.invoke(only if len(rows) == 1 else rows, state, output)


def _by_key(call: _Call) -> None:
    """One call a key, or a firing; tuples are dictionaries."""
    task, rows, state, output, firings = call.task, call.rows, call.state, call.output, call.firings
    if state is None:
        for slot, some in enumerate(next(iter(rows.values())).lists() if len(rows) == 1 else []):
            output.expect(next(iter(rows.values())).positions[slot], single=True)
            task.operator.invoke([some], None, output)
        if len(rows) > 1:
            output.expect(_newest(rows), single=True)
            task.operator.invoke({p: r.lists() for p, r in rows.items()}, None, output)
        return
    queues = {p: _Queue(r, len(state)) for p, r in rows.items()}
    for slot in np.unique(np.concatenate([r.slots for r in rows.values()])).tolist():
        calls = 1 if firings is None or task.spec.need.mode == "any" else int(firings[slot])
        box = _Box(task, state, slot)
        for number in range(calls):
            taken = {
                p: q.take(slot, task.spec.need.of(p) if calls and _exact(task) else None, number)
                for p, q in queues.items()
            }
            output.expect(
                np.max(np.concatenate([positions for _, positions in taken.values()]), axis=0), single=True
            )
            given = {p: listed for p, (listed, _) in taken.items()}
            task.operator.invoke(next(iter(given.values())) if len(given) == 1 else given, box.values, output)
        box.save()


def _exact(task: "Task") -> bool:
    return task.spec.need.mode == "all"


class _Queue:
    """The tuples of one port by key."""

    def __init__(self, rows: Rows, keys: int) -> None:
        order = np.argsort(rows.slots, kind="stable")
        self.listed = rows.take(order).lists()
        self.positions = rows.positions[order]
        self.starts = np.searchsorted(rows.slots[order], np.arange(keys + 1))

    def take(
        self, slot: int, size: int | None, number: int
    ) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
        begin, end = int(self.starts[slot]), int(self.starts[slot + 1])
        if size is not None:
            begin, end = begin + number * size, begin + (number + 1) * size
        return self.listed[begin:end], self.positions[begin:end]


class _Box:
    """The state of one key as a dictionary."""

    def __init__(self, task: "Task", state: KeyedState, slot: int) -> None:
        self.state, self.slot = state, slot
        if task.spec.state is None:
            raw = state.columns[FREE][slot]
            self.values: dict[str, Any] = {} if raw is None else pickle.loads(raw)
        else:
            self.values = {c.name: _python(state.columns[c.name][slot]) for c in task.spec.state}

    def save(self) -> None:
        if FREE in self.state.columns:
            self.state.columns[FREE][self.slot] = pickle.dumps(self.values, protocol=5)
            self.state.dropped[self.slot] |= not self.values
            return
        for name, column in self.state.columns.items():
            column[self.slot] = self.values[name]


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _newest(rows: Mapping[str, Rows]) -> NDArray[np.int64]:
    newest: NDArray[np.int64] = np.max(np.concatenate([r.positions for r in rows.values()]), axis=0)
    return newest


def _halves(rows: dict[str, Rows], whole_keys: bool) -> list[dict[str, Rows]] | None:
    """Two parts in order, or None if there is nothing to part: by rows, or by keys where a call needs several rows."""
    if not whole_keys:
        ((port, only),) = rows.items()
        middle = len(only) // 2
        return (
            None
            if len(only) < 2
            else [{port: only.take(np.arange(middle))}, {port: only.take(np.arange(middle, len(only)))}]
        )
    slots = np.unique(np.concatenate([r.slots for r in rows.values()]))
    if len(slots) < 2:
        return None
    middle = slots[len(slots) // 2]
    return [
        {p: r.take(np.flatnonzero(r.slots < middle)) for p, r in rows.items()},
        {p: r.take(np.flatnonzero(r.slots >= middle)) for p, r in rows.items()},
    ]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
