"""The state of one key at a time, as a dictionary: what operators of grain "key" see of the state's columns."""

import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Ints, objects
from penstock.core.errors import PenstockError
from penstock.dataflow.firing import FiringRule
from penstock.dataflow.keyed_state import (
    ALARM,
    FREE,
    NEVER,
    RULE,
    TIMER,
    BadState,
    Clock,
    KeyedState,
    check_column,
    microseconds_of,
)
from penstock.dataflow.operators import Spec
from penstock.dataflow.records import record_filler, record_maker

if TYPE_CHECKING:
    from penstock.dataflow.wiring import Task


#: So many states written at once are put into the listed values one by one.
FEW = 64

#: What a key's state is until it is written: the values of the columns in order, or pickled bytes; empty: forget the key.
#: And the text of its firing rule, where that is not the declared one.
#: And the timers that were set.
Encoded = tuple[tuple[Any, ...], str | None, Mapping[str, int]]

_NO_TIMERS: Mapping[str, int] = MappingProxyType({})


class KeyState(dict[str, Any]):
    """The state of one key as an operator of grain "key" sees it: a dictionary that also knows the key's firing rule.

    What all keys of a batch have in common is kept with a class of their own (:func:`states_of`): there may be a million.
    """

    _spec: ClassVar[Spec]
    #: The newest event time of the micro-batches before this one, in seconds since 1970; None in the first.
    event_time: ClassVar[float | None] = None
    _changed: FiringRule | None = None
    #: Timers that were set, by the name of their column.
    pending: Mapping[str, int] = _NO_TIMERS

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

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
        name = TIMER if clock == "event" else ALARM
        self.pending = {**self.pending, name: NEVER if at is None else microseconds_of(at)}

    def change_rule(self, rule: FiringRule) -> None:
        """Have the rule that was written before, the runtime's side of :meth:`need`."""
        self._changed = rule


def states_of(spec: Spec, event_time: float | None) -> type[KeyState]:
    """The class of the states of one operator in one micro-batch."""
    return type("KeyState", (KeyState,), {"_spec": spec, "event_time": event_time})


@dataclass(frozen=True)
class Kept:
    """States as they are to be written: values by column for some keys, and the keys to forget."""

    slots: Sequence[int]
    columns: Sequence[Sequence[Any]]
    forgotten: Sequence[int] = ()
    #: Timers that were set, by key, and the texts of firing rules.
    timers: Sequence[tuple[int, Mapping[str, int]]] = ()
    rules: Sequence[tuple[int, str | None]] = ()

    @classmethod
    def of(cls, done: Mapping[int, Encoded]) -> "Kept":
        """From states that were encoded one by one."""
        written = {slot: made for slot, (made, _, _) in done.items() if made}
        return cls(
            list(written),
            list(zip(*written.values(), strict=True)),
            [slot for slot, (made, _, _) in done.items() if not made],
            [(slot, timers) for slot, (_, _, timers) in done.items() if timers],
            [(slot, rule) for slot, (_, rule, _) in done.items()],
        )

    def without(self, slots: Collection[int]) -> "Kept":
        """The same without some keys."""
        if not slots:
            return self
        chosen = [slot not in slots for slot in self.slots]
        return Kept(
            list(compress(self.slots, chosen)),
            [list(compress(column, chosen)) for column in self.columns],
            [slot for slot in self.forgotten if slot not in slots],
            [(slot, timers) for slot, timers in self.timers if slot not in slots],
            [(slot, rule) for slot, rule in self.rules if slot not in slots],
        )


class KeyStates:
    """Reads and writes the states of single keys."""

    def __init__(self, task: "Task", state: KeyedState) -> None:
        self.task, self.state = task, state
        self.free, self.waits = task.spec.state is None, RULE in state.columns
        self._declared = task.spec.state or ()
        self.columns = tuple(c.name for c in self._declared)
        #: Columns whose values an operator may change in place: lists and the like.
        self._nested = {c.name for c in self._declared if pa.types.is_nested(c.type)}
        #: Whether states can be read and written column by column: their values cannot be changed from outside.
        self.simple = not self.free and not self._nested and not self.waits
        self._class = states_of(task.spec, state.event_time)
        self._take = itemgetter(*self.columns) if len(self.columns) > 1 else None
        #: The values of simple columns as Python's, by slot; made once, since a call each is what costs.
        self._listed: list[list[Any]] | None = None

    def rule(self, slot: int) -> FiringRule:
        """The firing rule in force for a key, as it was written last."""
        text = self.state.columns[RULE][slot]
        return self.task.spec.need if text is None else FiringRule.of_text(text)

    def read(self, slot: int) -> KeyState:
        """The state of a key."""
        state = self._class(self._values(slot))
        if self.waits and (text := self.state.columns[RULE][slot]) is not None:
            state.change_rule(FiringRule.of_text(text))
        return state

    def read_all(self, slots: Ints, used: Sequence[KeyState] = ()) -> list[KeyState]:
        """The states of many keys, where they are simple; states that are ``used`` up are taken again where they can be."""
        if not self.columns:
            return [self._class() for _ in slots]
        values = [self.state.columns[name][slots].tolist() for name in self.columns]
        if len(used) < len(slots) or self.task.spec.on_timer:
            return list(map(self._class, record_maker(self.columns)(values)))
        states = list(used[: len(slots)])
        record_filler(self.columns)(states, values)
        return states

    def _values(self, slot: int) -> dict[str, Any]:
        if self.free:
            raw = self.state.columns[FREE][slot]
            return {} if raw is None else pickle.loads(raw)
        if self._listed is None:
            self._listed = [self.state.columns[name].tolist() for name in self.columns]
        values = {name: column[slot] for name, column in zip(self.columns, self._listed, strict=True)}
        for name in self._nested:  # the columns keep what was before until all is well
            values[name] = pickle.loads(pickle.dumps(values[name]))
        return values

    def encoded(self, values: KeyState) -> Encoded:
        """A state as it will be written; raises where its fields are not those declared. An empty one forgets the key."""
        rule = None
        if self.waits and values.rule is not self.task.spec.need:
            rule = values.rule.text
        return self._taken(values) if values else (), rule, values.pending

    def encoded_all(self, slots: Sequence[int], states: Sequence[KeyState]) -> Kept:
        """Simple states as they will be written; raises where one has not the fields that are declared."""
        timers = (
            [(slot, state.pending) for slot, state in zip(slots, states, strict=True) if state.pending]
            if self.task.spec.on_timer
            else ()
        )
        lengths, forgotten = set(map(len, states)), list[int]()
        if 0 in lengths:
            forgotten = [slot for slot, state in zip(slots, states, strict=True) if not state]
            slots, states = list(compress(slots, states)), list(filter(None, states))
        if not lengths <= {0, len(self.columns)}:
            raise self._not_declared(next(state for state in states if len(state) != len(self.columns)))
        try:
            columns = [list(map(itemgetter(name), states)) for name in self.columns]
        except KeyError:
            raise self._not_declared(next(s for s in states if set(s) != set(self.columns))) from None
        return Kept(slots, columns, forgotten, timers)

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

    def check(self, kept: Kept) -> None:
        """Raise where values do not fit the types of their columns."""
        operator = self.task.context.name
        if self.free or not len(kept.slots):
            return
        for column, values in zip(self._declared, kept.columns, strict=True):
            dtype = self.state.columns[column.name].dtype
            whole = _fits_exactly(dtype)
            if whole is None:
                check_column(operator, column, objects(values))
            elif not _surely_fit(values, dtype) and (wrong := [v for v in values if not whole(v)]):
                raise BadState(
                    f"Operator '{operator}' put {wrong[0]!r} into its state column '{column.name}', which is "
                    f"{dtype}; put in what fits exactly, or declare another type."
                )

    def write(self, kept: Kept) -> None:
        """Keep states."""
        names = (FREE,) if self.free else self.columns
        for slot, rule in kept.rules if self.waits else ():
            self.state.columns[RULE][slot] = rule
        for slot, timers in kept.timers:
            for name, due in timers.items():
                self.state.columns[name][slot] = due
        self.state.dropped[kept.forgotten] = True
        if not len(kept.slots):
            return
        slots = np.array(kept.slots, dtype=np.int64)
        self.state.dropped[slots] = False
        for name, values in zip(names, kept.columns, strict=True):
            column = self.state.columns[name]
            column[slots] = objects(values) if column.dtype == object else np.array(values, column.dtype)
        self._renew(kept.slots)

    def _renew(self, written: Sequence[int]) -> None:
        """Values that were listed are not those any more: list them anew, or where they are few put the new ones in."""
        if self._listed is None:
            return
        if len(written) > FEW:
            self._listed = None
            return
        for name, listed in zip(self.columns, self._listed, strict=True):
            for slot in written:
                listed[slot] = self.state.columns[name][slot : slot + 1].tolist()[0]

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


def _fits_exactly(dtype: Any) -> Callable[[Any], bool] | None:
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


def _surely_fit(values: Sequence[Any], dtype: Any) -> bool:
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
