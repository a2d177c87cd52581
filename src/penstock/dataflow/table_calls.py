"""Grain "table": one call for all tuples and keys at hand, or several on parts of them where a call fails."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.dataflow.calls import CallWork, gallop, is_fatal, smallest
from penstock.dataflow.output import BadOutput, Output, cause_of
from penstock.dataflow.rows import Rows
from penstock.dataflow.state import check_columns

Ints = NDArray[np.int64]


def call_tables(work: CallWork) -> None:
    """Hand the tuples to the operator."""
    if not work.forgiving:
        try:
            _invoke(work, work.rows, work.output, whole=True)
        except Exception as error:
            if is_fatal(error):
                raise
            _Parts(work).blame(error)
        return
    parts = _Parts(work)
    failed = parts.attempt(0, parts.count)
    while isinstance(failed, BadOutput) and parts.leave_out(failed):
        failed = parts.attempt(0, parts.count)
    if failed is not None:
        gallop(parts.count, parts.attempt, parts.give_up)


class _Parts:
    """The tuples in a row of things that can be tried one by one: tuples, or keys where a call needs several of them."""

    def __init__(self, work: CallWork) -> None:
        self.work = work
        self.by_key = not work.divisible or len(work.rows) > 1
        ((_, first), *_) = work.rows.items()
        self.rows = np.arange(len(first))
        slots = {port: rows.slots for port, rows in work.rows.items()}
        self.keys = np.unique(np.concatenate(list(slots.values())))
        self.order = {port: np.argsort(s, kind="stable") for port, s in slots.items()} if self.by_key else {}
        self.sorted = {port: slots[port][order] for port, order in self.order.items()}

    @property
    def count(self) -> int:
        return len(self.keys) if self.by_key else len(self.rows)

    def numbers(self, begin: int, end: int) -> dict[str, Ints]:
        """The row numbers of some of the things, by port."""
        if not self.by_key:
            return dict.fromkeys(self.work.rows, self.rows[begin:end])
        low, high = self.keys[begin], self.keys[end - 1]
        found = {}
        for port, order in self.order.items():
            a, b = np.searchsorted(self.sorted[port], [low, high + 1])
            found[port] = np.sort(order[a:b])
        return found

    def attempt(self, begin: int, end: int) -> Exception | None:
        """Call with some of them; what the call changed and gave out stays only if it succeeds."""
        work, mark = self.work, self.work.output.mark()
        if begin == end:
            return None
        try:
            _invoke(work, self._some(begin, end), work.output, whole=False)
        except Exception as error:
            if is_fatal(error):
                raise
            work.output.back_to(mark)
            return error
        return None

    def give_up(self, at: int, error: Exception) -> None:
        """Put one of them aside."""
        self.work.put_aside({p: n.tolist() for p, n in self.numbers(at, at + 1).items()}, error)

    def leave_out(self, error: BadOutput) -> bool:
        """Put the tuples aside that caused bad rows, where that is known for sure."""
        if self.by_key or not error.causes:
            return False
        ((port, rows),) = self.work.rows.items()
        places = [cause_of(p) for p in rows.positions[self.rows]]
        if len(set(places)) < len(places):
            return False
        bad = np.array([place in error.causes for place in places])
        for at, number in zip(np.flatnonzero(bad), self.rows[bad].tolist(), strict=True):
            self.work.put_aside({port: [number]}, error.causes[places[at]])
        self.rows = self.rows[~bad]
        return bool(bad.any())

    def blame(self, error: Exception) -> None:
        """End the run with the smallest part that fails, looked for on copies."""
        begin, end = smallest(self.count, self._fails)
        self.work.fail({p: n.tolist() for p, n in self.numbers(begin, end).items()}, error)

    def _fails(self, begin: int, end: int) -> bool:
        work = self.work
        trial = Output(work.name, work.task.context.outputs)
        try:
            _invoke(work, self._some(begin, end), trial, whole=False, keep=False)
        except Exception:  # noqa: BLE001 - an operator is user code
            return True
        return False

    def _some(self, begin: int, end: int) -> dict[str, Rows]:
        return {p: self.work.rows[p].take(n) for p, n in self.numbers(begin, end).items()}


def _invoke(work: CallWork, rows: Mapping[str, Rows], output: Output, whole: bool, keep: bool = True) -> None:
    """One call; on some of the tuples the operator sees the states of their keys only, as copies."""
    state, task = work.state, work.task
    if state is not None and not whole:
        slots = np.unique(np.concatenate([r.slots for r in rows.values()]))
        rows = {
            p: Rows(r.table, r.positions, np.searchsorted(slots, r.slots), len(slots))
            for p, r in rows.items()
        }
        state = state.part(slots)
    only = next(iter(rows.values()))
    output.expect(only.positions if len(rows) == 1 else None, single=False)
    task.operator.invoke(only if len(rows) == 1 else rows, state, output)
    if state is not None and work.state is not None and not whole:
        check_columns(work.name, task.spec, state)
        if keep:
            work.state.put(slots, state)
