"""Call an operator's code (here in grain "table") and find the tuples to blame when it fails.

A call that fails, or gives out what does not fit, leaves no trace: neither state nor output. Where the operator says
``on_error="dead-letter"`` the tuples to blame are put aside and the others go on; otherwise they are shown and the run
ends. A mistake in how the operator is declared ends the run in any case.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.dataflow.keyed_state import BadState, KeyedState, check_columns
from penstock.dataflow.output import SHOWN, BadOutput, Output, cause_of
from penstock.dataflow.rows import Rows

if TYPE_CHECKING:
    from penstock.dataflow.wiring import Task


@dataclass(frozen=True)
class DeadRows:
    """Tuples that were put aside: whose, which, why."""

    operator: str
    rows: pa.Table
    reason: str


@dataclass(frozen=True)
class CallWork:
    """What an operator is called with: the tuples by port, the state, where output goes."""

    task: "Task"
    rows: Mapping[str, Rows]
    state: KeyedState | None
    output: Output
    #: How many of a key's tuples were handed over, by port, where tuples wait; calls in grain "key" fill it in.
    taken: Mapping[str, NDArray[np.int64]] | None = None
    #: Tuples to be put aside: port, reason -> row numbers.
    dead: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The operator's name in the flow."""
        return self.task.context.name

    @property
    def forgiving(self) -> bool:
        """Whether tuples may be put aside."""
        return self.task.spec.on_error == "dead-letter"

    @property
    def divisible(self) -> bool:
        """Whether the tuples of a key may come in any number of calls."""
        return self.taken is None

    def put_aside(self, rows: Mapping[str, Sequence[int]], error: BaseException | str) -> None:
        """Note tuples that go to the dead letters."""
        for port, numbers in rows.items():
            self.dead.setdefault((port, in_words(error)), []).extend(numbers)

    def dead_rows(self) -> list[DeadRows]:
        """All that was put aside."""
        return [
            DeadRows(self.name, self.rows[port].table.take(pa.array(numbers)), reason)
            for (port, reason), numbers in self.dead.items()
            if numbers
        ]

    def fail(self, rows: Mapping[str, Sequence[int]], error: BaseException) -> NoReturn:
        """End the run; the first of the tuples to blame is shown."""
        if isinstance(error, BadOutput | BadState):
            raise error
        shown = {p: self.rows[p].take(np.array(n[:1])).lists()[0] for p, n in rows.items() if len(n)}
        tuple_ = str(next(iter(shown.values())) if len(shown) == 1 else shown)
        raise PenstockError(
            f"Operator '{self.name}' failed with {in_words(error)} on the tuple {tuple_[:SHOWN]}; "
            "mend the operator, or let such tuples be put aside with on_error='dead-letter'."
        ) from error


def is_fatal(error: BaseException) -> bool:
    """Whether an error is a mistake in the flow and not the fault of some tuples."""
    return isinstance(error, PenstockError) and not isinstance(error, BadOutput | BadState)


def gallop(
    count: int, attempt: Callable[[int, int], Exception | None], give_up: Callable[[int, Exception], None]
) -> None:
    """Work through things from the first to the last, in parts as long as bad ones seem to lie apart.

    ``attempt(begin, end)`` gives the error, or None; a part that fails is halved until the bad thing stands alone and is
    given up (Hwang's binary splitting): about log2(distance) + 2 attempts for each bad thing, and one for each thing where
    all are bad.

    >>> tried = []
    >>> gallop(8, lambda a, b: tried.append((a, b)) or (ValueError() if a <= 4 < b else None), lambda at, error: None)
    >>> tried
    [(0, 4), (4, 8), (4, 6), (4, 5), (5, 7), (7, 8)]
    """
    begin, size, bad = 0, max(1, count // 2), 0
    while begin < count:
        end = min(begin + size, count)
        error = attempt(begin, end)
        while error is not None and end - begin > 1:
            middle = (begin + end) // 2
            error = attempt(begin, middle)
            if error is not None:
                end = middle
            else:
                begin = middle
                error = attempt(begin, end) if end - begin == 1 else _SOMEWHERE
        if error is None:
            begin = end
        else:
            give_up(begin, error)
            begin, bad = begin + 1, bad + 1
        size = max(1, begin // (bad + 1))


#: The first half of what failed was good, so the error is in the second.
_SOMEWHERE = ValueError("not tried by itself")


def smallest(count: int, fails: Callable[[int, int], bool]) -> tuple[int, int]:
    """A smallest range of things that fails, found by halving what fails as a whole."""
    begin, end = 0, count
    while end - begin > 1:
        middle = (begin + end) // 2
        if fails(begin, middle):
            end = middle
        elif fails(middle, end):
            begin = middle
        else:
            break
    return begin, end


def in_words(error: BaseException | str) -> str:
    """An error in words."""
    if isinstance(error, str | PenstockError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


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

    def numbers(self, begin: int, end: int) -> dict[str, NDArray[np.int64]]:
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


def part_of(
    state: KeyedState, rows: Mapping[str, Rows]
) -> tuple[NDArray[np.int64], Mapping[str, Rows], KeyedState]:
    """The keys of some tuples, the tuples with the places of these, and copies of their states."""
    slots = np.unique(np.concatenate([r.slots for r in rows.values()]))
    placed = {
        p: Rows(r.table, r.positions, np.searchsorted(slots, r.slots), len(slots)) for p, r in rows.items()
    }
    return slots, placed, state.part(slots)


def _invoke(work: CallWork, rows: Mapping[str, Rows], output: Output, whole: bool, keep: bool = True) -> None:
    """One call; on some of the tuples the operator sees the states of their keys only, as copies."""
    state, task = work.state, work.task
    if state is not None and not whole:
        slots, rows, state = part_of(state, rows)
    only = next(iter(rows.values()))
    output.expect(only.positions if len(rows) == 1 else None, single=False)
    task.operator.invoke(only if len(rows) == 1 else rows, state, output)
    if state is not None and work.state is not None and not whole:
        check_columns(work.name, task.spec, state)
        if keep:
            work.state.put(slots, state)
