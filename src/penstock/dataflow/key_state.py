"""The state of one key at a time, as a dictionary: what operators of grain "key" see of the state's columns."""

import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dataflow.state import FREE, BadState, KeyedState, check_columns

if TYPE_CHECKING:
    from penstock.dataflow.invoke import Task

#: What a key's state is until it is written: the values of the columns in order, or pickled bytes; None: forget the key.
Encoded = tuple[Any, ...] | None


class KeyStates:
    """Reads and writes the states of single keys."""

    def __init__(self, task: "Task", state: KeyedState) -> None:
        self.task, self.state = task, state
        self.free = task.spec.state is None
        self.columns = () if task.spec.state is None else tuple(c.name for c in task.spec.state)
        self.wholes = [_whole(state.columns[name].dtype) for name in self.columns]

    def read(self, slot: int) -> dict[str, Any]:
        """The state of a key."""
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

    def encoded(self, values: Mapping[str, Any]) -> Encoded:
        """A state as it will be written; raises where it is not what was declared. An empty one forgets the key."""
        if not values:
            return None
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
        written = {slot: made for slot, made in done.items() if made is not None}
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
        for slot, made in done.items():
            if made is None:
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
