"""The state of one key at a time, as a dictionary: what operators of grain "key" see of the state's columns."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    from penstock.dataflow.invoke import Task

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
        found = {}
        for name in self.columns:
            column = self.state.columns[name]
            value = column[slot]
            # Lists and the like may be changed in place, and the columns keep what was before until all is well.
            found[name] = pickle.loads(pickle.dumps(value)) if column.dtype == object else value.item()
        return found

    def encoded(self, values: KeyState) -> Encoded:
        """A state as it will be written; raises where it is not what was declared. An empty one forgets the key."""
        rule = None if values.rule is self.task.spec.need else values.rule.text
        return self._checked(values) if values else (), rule, values.pending

    def _checked(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.free:
            return (pickle.dumps(dict(values), protocol=5),)
        if len(values) != len(self.columns) or any(name not in values for name in self.columns):
            raise self._not_declared(values)
        made = tuple(values[name] for name in self.columns)
        for value, whole, name in zip(made, self.wholes, self.columns, strict=True):
            if whole is not None and not whole(value):
                kind = self.state.columns[name].dtype
                raise BadState(
                    f"Operator '{self.task.context.name}' put {value!r} into its state column '{name}', which is {kind}; "
                    "put in what fits exactly, or declare another type."
                )
        return made

    def check(self, done: Mapping[int, Encoded]) -> None:
        """Raise where values do not fit the types of their columns."""
        written = {slot: made for slot, (made, _, _) in done.items() if made}
        if self.free or all(whole is not None for whole in self.wholes) or not written:
            return
        slots = np.array(list(written), dtype=np.int64)
        some = self.state.part(slots)
        for at, name in enumerate(self.columns):
            if self.wholes[at] is None:
                some.columns[name][:] = _objects([made[at] for made in written.values()])
        check_columns(self.task.context.name, self.task.spec, some)

    def write(self, done: Mapping[int, Encoded]) -> None:
        """Keep states."""
        names = (FREE,) if self.free else self.columns
        for slot, (made, rule, timers) in done.items():
            if self.waits:
                self.state.columns[RULE][slot] = rule
            for name, due in timers.items():
                self.state.columns[name][slot] = due
            if not made:
                self.state.dropped[slot] = True
                continue
            self.state.dropped[slot] = False
            for name, value in zip(names, made, strict=True):
                self.state.columns[name][slot] = value

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


def _objects(values: list[Any]) -> Any:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
