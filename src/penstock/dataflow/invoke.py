"""Run operators of one task on the tuples that came for them: find keys, load states, hold back, call, save, hand on.

The same code serves every runtime; layers come from files on Spark and from memory in the reference run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.belief import Lookout, Sightings
from penstock.dataflow.buffering import BufferedTuples
from penstock.dataflow.calls import CallWork, DeadRows, call_tables
from penstock.dataflow.kept_keys import check_kept
from penstock.dataflow.keyed_state import KeyedState, gathered, keep_waiting, layer_of, load, state_schema
from penstock.dataflow.keys import Hashes, cast_keys, group_of, hash_keys, missing_keys, within
from penstock.dataflow.layers import TIME, Assigned, assign
from penstock.dataflow.operators import Spec
from penstock.dataflow.output import Output
from penstock.dataflow.row_calls import call_rows
from penstock.dataflow.rows import Chunk, Rows, event_times, no_times
from penstock.dataflow.slices import SliceTime, Slicing, call_in_slices
from penstock.dataflow.timers import Called, Due, stacked
from penstock.dataflow.wiring import Send, Task, Wiring, Write


@dataclass
class OperatorFigures:
    """What one operator did: in one call of the runtime, or summed up over the calls of a task."""

    rows_in: int = 0
    rows_out: int = 0
    cpu: float = 0.0
    waiting: int = 0
    fullest: float = 0.0
    #: The newest event time seen, in microseconds, for operators with a time to live.
    clock: int | None = None
    #: Tuples with a usable event time, and the sightings among them, those of each call by themselves.
    timed: int = 0
    told: tuple[Sightings, ...] = ()
    #: Times of slices of a call, where one was made in slices.
    slices: tuple[SliceTime, ...] = ()

    def add(self, other: "OperatorFigures") -> None:
        """Count one call more."""
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.cpu += other.cpu
        self.waiting += other.waiting
        self.fullest = max(self.fullest, other.fullest)
        self.timed += other.timed
        self.told += other.told
        self.slices += other.slices
        if other.clock is not None:
            self.clock = max(other.clock, self.clock if self.clock is not None else other.clock)


@dataclass
class Result(OperatorFigures):
    """What became of one call of the runtime."""

    outputs: dict[str, Chunk] = field(default_factory=dict)
    layer: pa.Table | None = None
    dead: list[DeadRows] = field(default_factory=list)


@dataclass(frozen=True)
class Before:
    """What an operator begins a micro-batch with."""

    layers: Sequence[pa.Table] = ()
    #: The newest event time of the batches before, and the driver's time, in microseconds.
    clock: int | None = None
    now: int = 0
    #: Up to which event time tuples are believed; None: nothing is known yet.
    latest: int | None = None
    #: Which keys are this task's own, by their hashes; None: all.
    own: Callable[[Hashes], NDArray[np.bool_]] | None = None
    #: How to call in slices of keys, to tell what each costs; None: all at once.
    slicing: Slicing | None = None


def invoke(task: Task, arrived: Mapping[str, Chunk], before: Before = Before()) -> Result:  # noqa: B008 - frozen
    """Call for the keys whose time has come, then process the tuples that arrived on the ports."""
    started = time.thread_time()
    result = Result(rows_in=sum(c.rows for c in arrived.values()))
    ports = {p: _usable(task, arrived[p], before, result) for p in task.spec.inputs if p in arrived}
    output = Output(task.context.name, task.context.outputs)
    if task.spec.kind == "stateless":
        rows = {
            p: Rows(c.table, c.positions, np.zeros(c.rows, dtype=np.int64), 1)
            for p, c in _all_ports(task, ports).items()
        }
        result.dead += _call(CallWork(task, rows, None, output))
    else:
        due = _called(task, before, output) if task.spec.watches else None
        layers = before.layers if due is None else [*before.layers, due.layer]
        if any(c.rows for c in ports.values()):
            _keyed(task, _all_ports(task, ports), replace(before, layers=layers), output, result)
        if due is not None:
            result.layer = due.layer if result.layer is None else stacked(due.layer, result.layer)
            ports = {**ports, "": due.keys}
    result.outputs = {p: _with_kept_keys(task, ports, p, c) for p, c in output.close().items()}
    result.rows_out = sum(c.rows for c in result.outputs.values())
    result.cpu = time.thread_time() - started
    return result


def entering(task: Task, port: str, chunk: Chunk) -> Chunk:
    """Rows as they come to a port, with the key columns in the types that the operator goes by."""
    table = cast_keys(task.context.name, task.spec.keys, task.context.inputs[port], chunk.table)
    return chunk if table is chunk.table else Chunk(table, chunk.positions)


def _called(task: Task, before: Before, output: Output) -> Called | None:
    """What became of the keys whose time has come; None where there are none."""
    due = Due(task, before.layers, before.clock, before.now, before.own)
    return due.called(output, task.timed) if len(due) else None


def _with_kept_keys(task: Task, arrived: Mapping[str, Chunk], port: str, out: Chunk) -> Chunk:
    """Rows given out, checked where they go on by the same keys, and with the hashes of these."""
    keys = task.kept.get(port)
    if keys is None or not out.rows:
        return out
    hashes = check_kept(task.context.name, keys, arrived, port, out)
    return Chunk(out.table, out.positions, hashes if keys == task.region_keys else None)


def _call(work: CallWork) -> list[DeadRows]:
    """Hand the tuples to the operator; what had to be put aside is given back."""
    if any(len(rows) for rows in work.rows.values()):
        (call_rows if work.task.spec.grain == "key" else call_tables)(work)
    return work.dead_rows()


def _keyed(
    task: Task,
    ports: Mapping[str, Chunk],
    before: Before,
    output: Output,
    result: Result,
) -> None:
    spec, layers, clock = task.spec, before.layers, before.clock
    keys = pa.concat_tables([_key_columns(task, c.table) for c in ports.values()])
    assigned = assign(keys, np.concatenate([_hashes(task, c) for c in ports.values()]), layers)
    oldest = None if spec.ttl is None or clock is None else clock - int(spec.ttl.seconds * 1e6)
    named = keys.take(pa.array(assigned.first)).rename_columns(list(spec.keys)) if spec.keys else keys
    state = load(spec, named, assigned, layers, oldest, clock)
    times = _times(spec, ports, assigned, layers, state, result)
    slots = np.split(assigned.slots, np.cumsum([c.rows for c in ports.values()])[:-1])
    rows = {
        p: Rows(c.table, c.positions, s, len(state)) for (p, c), s in zip(ports.items(), slots, strict=True)
    }
    held: dict[str, pa.Array] = {}
    if spec.need.immediate:
        _call_keys(CallWork(task, rows, state, output), assigned, before.slicing, result)
    else:
        waiting = BufferedTuples(spec, rows, assigned, layers, state)
        taken = waiting.takes(state)
        # In grain "key" a call may change the rule for the tuples after it, so all are there to be taken.
        ready = waiting.queues if spec.grain == "key" else waiting.ready(taken)
        _call_keys(CallWork(task, ready, state, output, taken), assigned, before.slicing, result)
        still = waiting.held(taken)
        held, result.waiting, result.fullest = still.lists, still.count, still.fullest
        keep_waiting(spec, state, held)
    result.layer = layer_of(state_schema(spec, task.context.inputs), spec, state, assigned, times, held)


def _call_keys(work: CallWork, assigned: Assigned, slicing: Slicing | None, result: Result) -> None:
    """Hand the tuples to the operator, all at once or in slices of key groups."""
    spec = work.task.spec
    if slicing is None or spec.kind != "partitioned" or not (work.divisible or spec.grain == "key"):
        result.dead += _call(work)
        return
    groups = group_of(assigned.hashes, slicing.groups)
    dead, result.slices = call_in_slices(work, groups, slicing, _call)
    result.dead += dead


def _all_ports(task: Task, ports: Mapping[str, Chunk]) -> dict[str, Chunk]:
    """The ports with empty chunks for those that got nothing."""
    like = next(iter(ports.values())).positions
    empty = np.zeros((0, *like.shape[1:]), dtype=np.int64)
    return {p: ports.get(p) or Chunk(task.context.inputs[p].empty_table(), empty) for p in task.spec.inputs}


def _usable(task: Task, chunk: Chunk, before: Before, result: Result) -> Chunk:
    """The tuples that have a key, and an event time that is believed; the others are put aside."""
    time = task.spec.event_time
    needed = [*task.spec.keys, *([time] if time else [])]
    bad = missing_keys(chunk.table, needed)
    chunk = _without(task, chunk, bad, f"no value in one of {', '.join(needed)}", result)
    if time is None or task.spec.kind == "stateless":
        return chunk
    chunk = _without(task, chunk, no_times(chunk.table.column(time)), f"{time} is no time", result)
    lookout = Lookout(task.spec.limits.ahead, before.latest)
    over = lookout.see(event_times(chunk.table.column(time)))
    result.timed += lookout.rows
    if told := lookout.told():
        result.told = (*result.told, told)
    return _without(task, chunk, over, f"{time} is too far ahead of the stream", result)


def _without(task: Task, chunk: Chunk, bad: NDArray[np.bool_] | None, reason: str, result: Result) -> Chunk:
    """The tuples outside the mask; those in it are put aside for this reason."""
    if bad is None:
        return chunk
    result.dead.append(DeadRows(task.context.name, chunk.table.filter(pa.array(bad)), reason))
    return chunk.take(np.flatnonzero(~bad))


def _key_columns(task: Task, table: pa.Table) -> pa.Table:
    keys = task.spec.keys
    return table.select(list(keys)).rename_columns(["key_" + k for k in keys]) if keys else pa.table({})


def _hashes(task: Task, chunk: Chunk) -> Hashes:
    if task.spec.kind == "stateful":
        return np.zeros(chunk.rows, dtype=np.uint64)
    region = hash_keys(chunk.table, task.region_keys) if chunk.hashes is None else chunk.hashes
    if task.spec.keys == task.region_keys:
        return region
    return within(region, hash_keys(chunk.table, task.spec.keys))


def _times(
    spec: Spec,
    ports: Mapping[str, Chunk],
    assigned: Assigned,
    layers: Sequence[pa.Table],
    state: KeyedState,
    result: Result,
) -> NDArray[np.int64] | None:
    """The newest event time of each key, in microseconds."""
    if spec.event_time is None:
        return None
    stamps = np.concatenate([event_times(c.table.column(spec.event_time)) for c in ports.values()])
    result.clock = int(stamps.max())
    if spec.ttl is None:
        return None
    known = gathered(TIME, pa.int64(), assigned, layers, ~state.new).fill_null(int(stamps.min()))
    newest: NDArray[np.int64] = known.to_numpy(zero_copy_only=False).copy()
    np.maximum.at(newest, assigned.slots, stamps)
    return newest


class Store(Protocol):
    """Where the states of operators are."""

    def layers(self, operator: str) -> Sequence[pa.Table]:
        """The layers of an operator that hold the groups of this task."""

    def clock(self, operator: str) -> int | None:
        """The newest event time of the batches before."""

    def latest(self, operator: str) -> int | None:
        """Up to which event time tuples are believed; None: nothing is known yet."""

    def save(self, operator: str, layer: pa.Table) -> None:
        """Keep what changed."""

    def own(self, hashes: NDArray[Any]) -> NDArray[Any]:
        """Which hashes belong to this task; layers may hold others too."""


@dataclass
class Executor:
    """Takes tuples for operators of one task and hands on what they give out."""

    wiring: Wiring
    store: Store
    send: Callable[[Send, Chunk], None]
    write: Callable[[str, Chunk], None]
    #: The driver's time where the batch began, in microseconds.
    now: int = 0
    #: How partitioned operators are called in slices of keys; None: all keys at once.
    slicing: Slicing | None = None
    figures: dict[str, OperatorFigures] = field(default_factory=dict)
    dead: list[DeadRows] = field(default_factory=list)

    def run(self, operator: str, arrived: Mapping[str, Chunk]) -> None:
        """Call one operator and everything after it in this task."""
        task = self.wiring.tasks[operator]
        kind = task.spec.kind
        before = Before()
        if kind != "stateless":
            store = self.store
            latest, slicing = store.latest(operator), self.slicing
            before = Before(
                store.layers(operator), store.clock(operator), self.now, latest, store.own, slicing
            )
        result = invoke(task, arrived, before)
        if result.layer is not None:
            self.store.save(operator, result.layer)
        self.figures.setdefault(operator, OperatorFigures()).add(result)
        self.dead += result.dead
        for port, chunk in result.outputs.items():
            self.hand_on(operator, port, chunk)

    def tick(self, operators: Sequence[str]) -> None:
        """Call for keys whose time has come at operators that no tuples came to."""
        for operator in operators:
            if operator not in self.figures and self.wiring.tasks[operator].spec.watches:
                self.run(operator, {})

    def hand_on(self, operator: str, port: str, chunk: Chunk) -> None:
        """Give the rows of an output port to all who take them."""
        for target in self.wiring.targets[operator, port]:
            if not chunk.rows:
                continue
            if isinstance(target, Write):
                self.write(target.sink, chunk)
                continue
            taken = entering(self.wiring.tasks[target.operator], target.port, chunk)
            if isinstance(target, Send):
                self.send(target, taken)
            else:
                self.run(target.operator, {target.port: taken})
