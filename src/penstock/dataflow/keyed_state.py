"""The state of many keys as columns, and the held-back tuples that wait beside it."""

import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Ints, objects
from penstock.core.errors import PenstockError, unknown
from penstock.dataflow.firing import FiringRule
from penstock.dataflow.layers import DISPLACED, DROPPED, FLAGS, HASH, TIME, Assigned
from penstock.dataflow.operators import Spec, StateColumn
from penstock.dataflow.rows import MISFIT, column_of

FREE = "__state"
HELD = "__held_"
#: When a key's timers by event time and by processing time are due, in microseconds.
TIMER, ALARM = "__timer", "__alarm"
NEVER = 2**63 - 1
#: The firing rule of a key where the operator changed it.
RULE = "__rule"


#: By which clock a timer goes.
Clock = Literal["event", "processing"]


def microseconds_of(at: Any) -> int:
    """A time as a user gives it, seconds since 1970 or a datetime, in microseconds."""
    if isinstance(at, datetime):
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6)
    return round(float(at) * 1e6)


class BadState(PenstockError):
    """A key's state is not what was declared: the fault of the rows that caused it."""


class KeyedState:
    """The states of the keys at hand: ``state["count"]`` is a numpy array with one value a key, to be changed in place.

    ``rows.slots`` says which place belongs to a row's key; ``state.new`` tells keys seen for the first time.
    """

    def __init__(
        self,
        keys: pa.Table,
        columns: dict[str, NDArray[Any]],
        new: NDArray[np.bool_],
        at: Ints | None = None,
    ) -> None:
        self._keys, self._at = keys, at
        self.columns = columns
        self.new = new
        #: The newest event time of the micro-batches before this one, in seconds since 1970; None in the first.
        self.event_time: float | None = None
        self.dropped = np.zeros(len(new), dtype=bool)

    def __len__(self) -> int:
        return len(self.new)

    @property
    def keys(self) -> pa.Table:
        """The key columns, one row a key."""
        if self._at is not None and self._keys.num_columns:
            self._keys, self._at = self._keys.take(pa.array(self._at)), None
        return self._keys

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise unknown("state column", name, self.columns)
        return self.columns[name]

    def __setitem__(self, name: str, values: Any) -> None:
        column = self[name]
        whole = column.dtype.kind in "iub" and np.asarray(values).dtype.kind == "f"
        if whole and not np.array_equal(np.asarray(values), np.trunc(values)):
            raise PenstockError(
                f"The state column '{name}' holds whole numbers, and got some with a fraction; round them first."
            )
        column[:] = values

    def need(self, slots: Any, rule: FiringRule) -> None:
        """Have another firing rule for the keys at these slots, from the next micro-batch on."""
        if RULE not in self.columns:
            raise PenstockError(
                "An operator without a firing rule cannot change it; declare the one to begin with, need=..."
            )
        texts = self.columns[RULE]
        texts[slots] = rule.text

    def timer(self, slots: Any, at: Any, clock: Clock = "event") -> None:
        """Have ``on_timer`` called for the keys at these slots: at an event time, or a time of the driver's clock.

        Times are seconds since 1970 or datetimes, one or one a slot; a key has one timer of each kind, the last set.
        """
        name = TIMER if clock == "event" else ALARM
        if name not in self.columns:
            raise PenstockError("An operator without on_timer= has no timers; declare it.")
        times = np.asarray(at)
        due = (
            np.vectorize(microseconds_of, otypes=[np.int64])(times)
            if times.dtype == object
            else (
                times.astype("datetime64[us]").astype(np.int64)
                if times.dtype.kind == "M"
                else np.rint(times * 1e6).astype(np.int64)
            )
        )
        self.columns[name][slots] = due

    def rules(self, spec: Spec) -> list[tuple[FiringRule, Ints]]:
        """The firing rules in force, each with its keys."""
        texts = self.columns[RULE]
        distinct = set(texts.tolist())
        return [
            (spec.need if text is None else FiringRule.of_text(text), np.flatnonzero(texts == text))
            for text in distinct
        ]

    def drop(self, slots: Any) -> None:
        """Forget the keys at these slots."""
        self.dropped[slots] = True

    # The runtime's side.

    def part(self, slots: Ints) -> "KeyedState":
        """The states of some keys, to be changed without changing these."""
        columns = {
            n: pickle.loads(pickle.dumps(c[slots])) if c.dtype == object else c[slots]
            for n, c in self.columns.items()
        }
        some = KeyedState(self.keys, columns, self.new[slots], at=slots)
        some.dropped, some.event_time = self.dropped[slots], self.event_time
        return some

    def put(self, slots: Ints, some: "KeyedState") -> None:
        """Take over the states of some keys."""
        for name, column in some.columns.items():
            self.columns[name][slots] = column
        self.dropped[slots] = some.dropped


def state_schema(spec: Spec, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of an operator's layers: hash, flags, time, keys, state, tuples held back."""
    fields = [pa.field(HASH, pa.uint64()), pa.field(FLAGS, pa.uint8())]
    if spec.ttl:
        fields.append(pa.field(TIME, pa.int64()))
    first = next(iter(inputs.values()))
    fields += [pa.field("key_" + k, first.field(k).type) for k in spec.keys]
    fields += [pa.field("state_" + c.name, c.type) for c in columns_of(spec)]
    if not spec.need.immediate:
        fields += [pa.field(HELD + port, _held_type(schema)) for port, schema in inputs.items()]
        fields.append(pa.field(RULE, pa.string()))
    if spec.on_timer is not None:
        fields += [pa.field(TIMER, pa.int64()), pa.field(ALARM, pa.int64())]
    return pa.schema(fields)


def columns_of(spec: Spec) -> tuple[StateColumn, ...]:
    """The state's columns; a free dictionary is one column of pickled bytes."""
    return (StateColumn(FREE, pa.binary(), None),) if spec.state is None else spec.state


def load(
    spec: Spec,
    keys: pa.Table,
    assigned: Assigned,
    layers: Sequence[pa.Table],
    expired_before: int | None,
    clock: int | None = None,
) -> KeyedState:
    """The states of the assigned keys as the layers have them; defaults where they do not."""
    found, alive = assigned.found, assigned.found.layer >= 0
    for number, layer in enumerate(layers):
        here = np.flatnonzero(found.layer == number)
        alive[here] = (np.asarray(layer.column(FLAGS).to_numpy())[found.row[here]] & DROPPED) == 0
        if expired_before is not None:
            alive[here] &= np.asarray(layer.column(TIME).to_numpy())[found.row[here]] >= expired_before
    columns = {c.name: _filled(c, assigned, layers, alive) for c in columns_of(spec)}
    if not spec.need.immediate:
        rules = gathered(RULE, pa.string(), assigned, layers, alive)
        columns[RULE] = rules.to_numpy(zero_copy_only=False).astype(object)
    for name in (TIMER, ALARM) if spec.on_timer is not None else ():
        due = gathered(name, pa.int64(), assigned, layers, alive).fill_null(NEVER)
        columns[name] = due.to_numpy(zero_copy_only=False).copy()
    state = KeyedState(keys, columns, ~alive)
    state.event_time = None if clock is None else clock / 1e6
    return state


def layer_of(
    schema: pa.Schema,
    spec: Spec,
    state: KeyedState,
    assigned: Assigned,
    times: Ints | None,
    held: Mapping[str, pa.Array],
) -> pa.Table:
    """The new layer: what the keys at hand are now."""
    flags = state.dropped.astype(np.uint8) * DROPPED + assigned.displaced.astype(np.uint8) * DISPLACED
    arrays = [pa.array(assigned.hashes), pa.array(flags.astype(np.uint8))]
    if times is not None:
        arrays.append(pa.array(times))
    arrays += [_one(state.keys.column(k)) for k in spec.keys]
    arrays += [as_column(c, state.columns[c.name]) for c in columns_of(spec)]
    arrays += [held[port] for port in spec.inputs if port in held]
    if RULE in state.columns:
        arrays.append(pa.array(state.columns[RULE], pa.string()))
    arrays += [pa.array(state.columns[name]) for name in (TIMER, ALARM) if name in state.columns]
    return pa.Table.from_arrays(
        [a.cast(f.type) if a.type != f.type else a for a, f in zip(arrays, schema, strict=True)],
        schema=schema,
    )


def check_columns(operator: str, spec: Spec, state: KeyedState) -> None:
    """Raise where a column of the state holds what is not of its type."""
    for column in columns_of(spec):
        if state.columns[column.name].dtype == object:
            check_column(operator, column, state.columns[column.name])


def check_column(operator: str, column: StateColumn, values: NDArray[Any]) -> None:
    """Raise where values of a state column are not of its type."""
    try:
        as_column(column, values)
    except PenstockError as error:
        raise BadState(f"Operator '{operator}': {error}") from None


def keep_waiting(
    spec: Spec, state: KeyedState, held: Mapping[str, pa.Array], among: NDArray[np.bool_] | None = None
) -> None:
    """Keys that were dropped while tuples wait for them stay, with a fresh state; ``among`` some keys, or all."""
    waiting = np.zeros(len(state), dtype=bool)
    for lists in held.values():
        waiting |= lists.value_lengths().to_numpy(zero_copy_only=False) > 0
    fresh = np.flatnonzero(state.dropped & waiting if among is None else state.dropped & waiting & among)
    for column in columns_of(spec):
        state.columns[column.name][fresh] = column.default
    state.dropped[fresh] = False


def gathered(
    name: str, kind: pa.DataType, assigned: Assigned, layers: Sequence[pa.Table], alive: NDArray[np.bool_]
) -> pa.Array:
    """A column's values for the assigned keys as Arrow; null where there is none."""
    pieces, source = [], np.full(len(alive), -1, dtype=np.int64)
    offset = 0
    for number, layer in enumerate(layers):
        here = np.flatnonzero((assigned.found.layer == number) & alive)
        if len(here):
            have = name in layer.column_names  # a layer of an older version may not have the column yet
            taken = (
                layer.column(name).take(pa.array(assigned.found.row[here]))
                if have
                else pa.nulls(len(here), kind)
            )
            pieces.append(_one(taken))
            source[here] = offset + np.arange(len(here))
            offset += len(here)
    pool = pa.concat_arrays(pieces) if pieces else pa.array([], kind)
    return pool.take(pa.array(source, mask=source < 0))


def _filled(
    column: StateColumn, assigned: Assigned, layers: Sequence[pa.Table], alive: NDArray[np.bool_]
) -> NDArray[Any]:
    if not _is_number(column.type):
        listed = gathered("state_" + column.name, column.type, assigned, layers, alive).to_pylist()
        # A None of a key that is there was written by the operator.
        return objects([v if there else column.default for v, there in zip(listed, alive, strict=True)])
    values = np.full(len(alive), column.default, dtype=column.type.to_pandas_dtype())
    for number, layer in enumerate(layers):
        here = np.flatnonzero((assigned.found.layer == number) & alive)
        if len(here):
            values[here] = _numpy(layer.column("state_" + column.name))[assigned.found.row[here]]
    return values


def _numpy(column: Any) -> NDArray[Any]:
    return np.asarray(
        column.chunk(0).to_numpy(zero_copy_only=False) if column.num_chunks == 1 else column.to_numpy()
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def as_column(column: StateColumn, values: NDArray[Any]) -> pa.Array:
    """The values of a state column as Arrow; raises where one of them does not fit."""
    try:
        return column_of(values.tolist() if values.dtype == object else values, column.type)
    except MISFIT as error:
        raise PenstockError(
            f"The state column '{column.name}' does not hold {column.type} any more: {error}."
        ) from None


def _one(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.array([], column.type)
    )


def _held_type(schema: pa.Schema) -> pa.DataType:
    fields = [pa.field(f.name, f.type) for f in schema]
    return pa.list_(pa.struct(fields))
