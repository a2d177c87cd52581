"""Call an operator's code and find the tuples to blame when it fails.

A call that fails, or gives out what does not fit, leaves no trace: neither state nor output. Where the operator says
``on_error="dead-letter"`` the tuples to blame are put aside and the others go on; otherwise they are shown and the run
ends. A mistake in how the operator is declared ends the run in any case.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.dataflow.output import SHOWN, BadOutput, Output
from penstock.dataflow.rows import Rows
from penstock.dataflow.state import BadState, KeyedState

if TYPE_CHECKING:
    from penstock.dataflow.invoke import Task


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


def number_of(value: Any) -> Any:
    """A numpy number as Python's."""
    return value.item() if isinstance(value, np.generic) else value
