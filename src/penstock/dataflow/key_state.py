"""The state of one key at a time, as a dictionary: what operators of grain "key" see of the state's columns."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.dataflow.firing import FiringRule
from penstock.dataflow.operators import Spec
from penstock.dataflow.state import (
    ALARM,
    FREE,
    NEVER,
    RULE,
    TIMER,
    BadState,
    Clock,
    KeyedState,
    check_columns,
    microseconds_of,
)

if TYPE_CHECKING:
    from penstock.dataflow.wiring import Task

#: So many states written at once are put into the listed values one by one.
FEW = 64

#: What a key's state is until it is written: the values of the columns in order, or pickled bytes; empty: forget the key.
#: And the text of its firing rule, where that is not the declared one.
#: And the timers that were set.
Encoded = tuple[tuple[Any, ...], str | None, dict[str, int]]


class KeyState(dict[str, Any]):
    """The state of one key as an operator of grain "key" sees it: a dictionary that also knows the key's firing rule."""

    def __init__(
        self,
        values: Mapping[str, Any],
        spec: Spec,
        rule: FiringRule | None = None,
        event_time: float | None = None,
    ) -> None:
        super().__init__(values)
        self._spec, self._changed = spec, rule
        #: The newest event time of the micro-batches before this one, in seconds since 1970; None in the first.
        self.event_time = event_time
        #: Timers that were set, by the name of their column.
        self.pending: dict[str, int] = {}

    @property
    def rule(self) -> FiringRule:
        """The firing rule in force for this key."""
        return self._changed or self._spec.need

    def need(self, rule: FiringRule) -> None:
        """Have another firing rule for this key, from the next call on."""
        if self._spec.need.immediate:
            raise PenstockError(
                "An operator without a firing rule cannot change it; declare the one to begin with, need=..."
            )
        replace(self._spec, need=rule)  # refuses what does not go with the ports
        self._changed = None if rule == self._spec.need else rule

    def timer(self, at: Any, clock: Clock = "event") -> None:
        """Have ``on_timer`` called for this key: at an event time, or at a time of the driver's clock.

        The time is in seconds since 1970, or a datetime; None takes the timer back. A key has one of each kind.
        """
        if self._spec.on_timer is None:
            raise PenstockError("An operator without on_timer= has no timers; declare it.")
        if clock == "event" and self._spec.event_time is None:
            raise PenstockError(
                "A timer by event time needs its column; declare time=, or give clock='processing'."
            )
        self.pending[TIMER if clock == "event" else ALARM] = NEVER if at is None else microseconds_of(at)


class KeyStates:
    """Reads and writes the states of single keys."""

    def __init__(self, task: "Task", state: KeyedState) -> None:
        self.task, self.state = task, state
        self.free, self.waits = task.spec.state is None, RULE in state.columns
        self.columns = () if task.spec.state is None else tuple(c.name for c in task.spec.state)
        self.wholes = [_whole(state.columns[name].dtype) for name in self.columns]
        self._take = itemgetter(*self.columns) if len(self.columns) > 1 else None
        #: The values of plain columns as Python's, by slot; made once, since a call each is what costs.
        self._plain: list[list[Any]] | None = None

    def rule(self, slot: int) -> FiringRule:
        """The firing rule in force for a key, as it was written last."""
        text = self.state.columns[RULE][slot]
        return self.task.spec.need if text is None else FiringRule.of_text(text)

    def read(self, slot: int) -> KeyState:
        """The state of a key."""
        changed = None
        if self.waits and (text := self.state.columns[RULE][slot]) is not None:
            changed = FiringRule.of_text(text)
        return KeyState(self._values(slot), self.task.spec, changed, self.state.event_time)

    def _values(self, slot: int) -> dict[str, Any]:
        if self.free:
            raw = self.state.columns[FREE][slot]
            return {} if raw is None else pickle.loads(raw)
        if None in self.wholes:
            return {name: self._value(self.state.columns[name], slot) for name in self.columns}
        if self._plain is None:
            self._plain = [self.state.columns[name].tolist() for name in self.columns]
        return {name: column[slot] for name, column in zip(self.columns, self._plain, strict=True)}

    def _value(self, column: Any, slot: int) -> Any:
        # Lists and the like may be changed in place, and the columns keep what was before until all is well.
        value = column[slot]
        return pickle.loads(pickle.dumps(value)) if column.dtype == object else value.item()

    def encoded(self, values: KeyState) -> Encoded:
        """A state as it will be written; raises where its fields are not those declared. An empty one forgets the key."""
        rule = None
        if self.waits and values.rule is not self.task.spec.need:
            rule = values.rule.text
        return self._taken(values) if values else (), rule, values.pending

    def _taken(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.free:
            return (pickle.dumps(dict(values), protocol=5),)
        if len(values) != len(self.columns):
            raise self._not_declared(values)
        try:
            made: tuple[Any, ...] = (
                self._take(values) if self._take is not None else tuple(values[name] for name in self.columns)
            )
        except KeyError:
            raise self._not_declared(values) from None
        return made

    def check(self, done: Mapping[int, Encoded]) -> None:
        """Raise where values do not fit the types of their columns."""
        written = {slot: made for slot, (made, _, _) in done.items() if made}
        if self.free or not written:
            return
        for at, (name, whole) in enumerate(zip(self.columns, self.wholes, strict=True)):
            values = [made[at] for made in written.values()]
            if whole is not None and not _all_whole(values, self.state.columns[name].dtype):
                wrong = [v for v in values if not whole(v)]
                if wrong:
                    raise BadState(
                        f"Operator '{self.task.context.name}' put {wrong[0]!r} into its state column '{name}', which is "
                        f"{self.state.columns[name].dtype}; put in what fits exactly, or declare another type."
                    )
        if None in self.wholes:
            self._check_others(written)

    def _check_others(self, written: Mapping[int, tuple[Any, ...]]) -> None:
        """The columns that are not plain numbers."""
        some = self.state.part(np.array(list(written), dtype=np.int64))
        for at, name in enumerate(self.columns):
            if self.wholes[at] is None:
                some.columns[name][:] = _objects([made[at] for made in written.values()])
        check_columns(self.task.context.name, self.task.spec, some)

    def write(self, done: Mapping[int, Encoded]) -> None:
        """Keep states."""
        names = (FREE,) if self.free else self.columns
        for slot, (_, rule, timers) in done.items() if self.waits or self.task.spec.on_timer else ():
            if self.waits:
                self.state.columns[RULE][slot] = rule
            for name, due in timers.items():
                self.state.columns[name][slot] = due
        self.state.dropped[[slot for slot, (made, _, _) in done.items() if not made]] = True
        written = {slot: made for slot, (made, _, _) in done.items() if made}
        if not written:
            return
        slots = np.fromiter(written, dtype=np.int64, count=len(written))
        self.state.dropped[slots] = False
        for name, values in zip(names, zip(*written.values(), strict=True), strict=True):
            column = self.state.columns[name]
            column[slots] = (
                _objects(list(values)) if column.dtype == object else np.array(values, column.dtype)
            )
        self._renew(written)

    def _renew(self, written: Mapping[int, Any]) -> None:
        """Values that were listed are not those any more: list them anew, or where they are few put the new ones in."""
        if self._plain is None:
            return
        if len(written) > FEW:
            self._plain = None
            return
        for name, listed in zip(self.columns, self._plain, strict=True):
            for slot in written:
                listed[slot] = self.state.columns[name][slot].item()

    def _not_declared(self, values: Mapping[str, Any]) -> BadState:
        operator, has = self.task.context.name, ", ".join(self.columns)
        strange = next((n for n in values if n not in self.columns), None)
        if strange is not None:
            return BadState(
                f"Operator '{operator}' put {values[strange]!r} into '{strange}', which its state does not have; "
                f"it has {has}: declare it with state=."
            )
        lost = next(n for n in self.columns if n not in values)
        return BadState(
            f"Operator '{operator}' took '{lost}' out of its state, which has {has}; give it a value, or clear "
            "all of them to forget the key."
        )


def _whole(dtype: Any) -> Callable[[Any], bool] | None:
    """Whether a value fits a column of numbers exactly; None for other columns."""
    if dtype.kind == "b":
        return lambda value: isinstance(value, bool | np.bool_)
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

        def is_whole(value: Any) -> bool:
            if type(value) is int:
                return low <= value <= high
            if isinstance(value, bool | np.bool_) or not isinstance(value, float | np.integer | np.floating):
                return False
            return float(value).is_integer() and low <= int(value) <= high

        return is_whole
    if dtype.kind == "f":
        return lambda value: isinstance(value, float | int | np.number) and not isinstance(value, bool)
    return None


def _all_whole(values: list[Any], dtype: Any) -> bool:
    """Whether all values surely fit a column of numbers: found out at once; False means: look at each."""
    kinds = set(map(type, values))
    if dtype.kind == "b":
        return kinds <= {bool}
    if dtype.kind == "f":
        return kinds <= {float, int}
    if kinds != {int}:
        return False
    limits = np.iinfo(dtype)
    return bool(min(values) >= limits.min and max(values) <= limits.max)


def _objects(values: list[Any]) -> Any:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
