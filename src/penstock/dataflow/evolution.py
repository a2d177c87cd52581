"""A flow that changed between two starts: what of an operator's state can be carried over, and how.

The *shape* of an operator is what its layers in the state store go by; it is committed with them. At a start the shape
of then is compared with that of now. What can be carried over is carried over as the layers are read: columns that came
later hold their default, columns that went are left out, narrower numbers become wider ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.keyed_state import ALARM, NEVER, TIMER, columns_of, state_schema
from penstock.dataflow.layers import TIME
from penstock.dataflow.regions import Regions
from penstock.dataflow.wiring import Task

Types = Mapping[str, str]


@dataclass(frozen=True)
class Shape:
    """What the layers of an operator go by; types are the names that Arrow has for them."""

    kind: str
    keys: Types
    #: The keys that the operator's region is partitioned by; None where version 0.1 wrote it.
    region: tuple[str, ...] | None
    #: The columns of the state; None: a free dictionary.
    state: Types | None
    #: The columns of tuples that wait, by port; None: none wait.
    waits: Mapping[str, Types] | None
    ttl: bool

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "region": None if self.region is None else list(self.region)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Shape":
        """The value that ``to_json`` gave."""
        region = value["region"]
        return cls(**{**value, "region": None if region is None else tuple(region)})

    @classmethod
    def of_first_version(cls, value: Mapping[str, Any]) -> "Shape":
        """What version 0.1 wrote of an operator: schemas as texts, no region."""
        inputs = {port: _types_in(text) for port, text in value["inputs"].items()}
        first = next(iter(inputs.values()))
        state = value["state"]
        return cls(
            value["kind"],
            {k: first[k] for k in value["keys"]},
            None,
            None if state is None else dict(state),
            inputs if value["waits"] else None,
            value["ttl"],
        )


def shapes_of(graph: Graph, regions: Regions) -> dict[str, Shape]:
    """The shapes of all operators of a flow that have a state."""
    return {
        name: _shape(graph, regions, name)
        for name, node in graph.nodes.items()
        if node.spec.kind != "stateless"
    }


def channels_of(graph: Graph, regions: Regions) -> str:
    """What messages between tasks go by, as one short text.

    Messages name a pipeline by its number and hold columns: where one that waits is read by another flow, the operators in
    their order, the regions, who feeds whom and the columns must be the same.
    """
    lines = [f"by time: {any(source.time for source in graph.sources.values())}"]
    for region in regions:
        for name in region.operators:
            feeders = graph.nodes[name].inputs
            for port, schema in graph.input_schemas(name).items():
                takes = [f"{stream.node}.{stream.port}" for stream in feeders[port]]
                lines.append(f"{region.name} {name} {port} {takes} {[(f.name, str(f.type)) for f in schema]}")
    return sha256("\n".join(lines).encode()).hexdigest()[:32]


def _shape(graph: Graph, regions: Regions, name: str) -> Shape:
    spec, inputs = graph.nodes[name].spec, graph.input_schemas(name)
    first = next(iter(inputs.values()))
    return Shape(
        spec.kind,
        {k: str(first.field(k).type) for k in spec.keys},
        regions.of(name).keys,
        None if spec.state is None else {c.name: str(c.type) for c in spec.state},
        None if spec.need.immediate else {p: {f.name: str(f.type) for f in s} for p, s in inputs.items()},
        spec.ttl is not None,
    )


def outdated(operator: str, before: Shape, now: Shape) -> frozenset[str]:
    """Columns of the layers written so far that do not count any more; raises where the state cannot be carried over."""
    problem = _problem(before, now)
    if problem:
        raise PenstockError(
            f"The state of operator '{operator}' cannot be carried over: {problem}. Change it back, or have its state "
            f"forgotten with 'penstock state migrate CHECKPOINT --reset {operator}'."
        )
    gone = {"state_" + c for c in before.state or {} if c not in (now.state or {})}
    if before.ttl and not now.ttl:
        gone.add(TIME)
    return frozenset(gone)


def carried(layer: pa.Table, task: Task, since: int | None, ignored: frozenset[str]) -> pa.Table:
    """A layer as the operator would write it now; ``since`` is the event time at which its time to live began."""
    schema = state_schema(task.spec, task.context.inputs)
    if not ignored and layer.schema.equals(schema):
        return _begun(layer, since)
    defaults: dict[str, Any] = {TIMER: NEVER, ALARM: NEVER}
    defaults |= {"state_" + c.name: c.default for c in columns_of(task.spec)}
    have = set(layer.column_names) - ignored
    columns = [
        _converted(layer.column(f.name), f.type)
        if f.name in have
        else pa.repeat(pa.scalar(defaults.get(f.name), f.type), layer.num_rows)
        for f in schema
    ]
    return _begun(pa.Table.from_arrays(columns, schema=schema).combine_chunks(), since)


def _begun(layer: pa.Table, since: int | None) -> pa.Table:
    """Keys that were there before there was a time to live: theirs began with it, or as soon as there was an event time."""
    at = layer.schema.get_field_index(TIME)
    if at < 0 or since is None or not layer.column(at).null_count:
        return layer
    return layer.set_column(at, layer.schema.field(at), layer.column(at).fill_null(since)).combine_chunks()


def _problem(before: Shape, now: Shape) -> str | None:
    if before.kind != now.kind:
        return f"it was {before.kind} and is {now.kind}"
    if list(before.keys) != list(now.keys):
        return f"its keys were {_listed(before.keys)} and are {_listed(now.keys)}"
    for key, kind in now.keys.items():
        if not _wider(before.keys[key], kind, same_family=True):
            return f"its key '{key}' was {before.keys[key]} and is {kind}"
    if before.region is not None and before.region != now.region:
        return (
            f"its keys were spread by {_listed(before.region)} and are now by {_listed(now.region or ())}, with the "
            "operators before it"
        )
    if (before.state is None) != (now.state is None):
        was, is_ = ("columns" if s is not None else "a free dictionary" for s in (before.state, now.state))
        return f"its state was {was} and is {is_}"
    for column, kind in (now.state or {}).items():
        was = (before.state or {}).get(column, kind)
        if not _wider(was, kind):
            return f"its state column '{column}' was {was} and is {kind}"
    return _problem_of_waiting(before, now)


def _problem_of_waiting(before: Shape, now: Shape) -> str | None:
    if before.waits is None:
        return None
    if now.waits is None:
        return "tuples wait for its firing rule, which it has no more"
    if set(before.waits) != set(now.waits):
        return f"tuples wait at its ports {_listed(before.waits)}, which are now {_listed(now.waits)}"
    for port, columns in now.waits.items():
        for column, kind in columns.items():
            was = before.waits[port].get(column, kind)
            if not _wider(was, kind):
                return f"tuples wait whose column '{column}' was {was} and is {kind}"
    return None


def _listed(names: Any) -> str:
    return "(" + ", ".join(names) + ")"


def _wider(before: str, now: str, same_family: bool = False) -> bool:
    """Whether every value of one type is a value of the other.

    >>> _wider("int32", "int64"), _wider("int64", "int32"), _wider("int32", "double"), _wider("string", "string")
    (True, False, True, True)
    """
    if before == now:
        return True
    try:
        old, new = pa.type_for_alias(before), pa.type_for_alias(now)
    except ValueError:
        return False
    whole = pa.types.is_integer(old)
    if whole and pa.types.is_integer(new):
        signed = pa.types.is_signed_integer(new)
        bits = new.bit_width - (signed and not pa.types.is_signed_integer(old))
        return bool(bits >= old.bit_width and (signed or not pa.types.is_signed_integer(old)))
    if pa.types.is_float32(old) and pa.types.is_float64(new):
        return True
    return bool(whole and old.bit_width <= 32 and pa.types.is_float64(new) and not same_family)


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    """A column in another type that can hold it: wider numbers, or tuples that wait with other columns."""
    if column.type == kind:
        return column
    if not pa.types.is_list(kind):
        return column.cast(kind)
    return pa.chunked_array([_waiting(chunk, kind) for chunk in column.chunks], kind)


def _waiting(lists: pa.ListArray, kind: pa.DataType) -> pa.Array:
    rows = lists.flatten()
    have = {rows.type.field(i).name: i for i in range(rows.type.num_fields)}
    fields = [kind.value_type.field(i) for i in range(kind.value_type.num_fields)]
    arrays = [
        rows.field(have[f.name]).cast(f.type) if f.name in have else pa.nulls(len(rows), f.type)
        for f in fields
    ]
    struct = pa.StructArray.from_arrays(arrays, fields=fields)
    counts = lists.value_lengths().fill_null(0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, struct, type=kind)


def _types_in(text: str) -> dict[str, str]:
    """The columns of a schema that was written as a text.

    >>> _types_in("word: string not null\\nat: double")
    {'word': 'string', 'at': 'double'}
    """
    pairs = (line.split(": ", 1) for line in text.splitlines() if ": " in line and not line.startswith(" "))
    return {name: kind.removesuffix(" not null") for name, kind in pairs}
