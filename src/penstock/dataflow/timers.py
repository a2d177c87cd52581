"""Timers and expiry: calls for keys whose time has come, whether tuples came for them or not.

A key has at most one timer by event time and one by processing time, kept as columns of its state. Both, and the time
to live, are looked at where a micro-batch begins, by the event times of the batches before it and by the clock of the
driver; so a replay calls for the same keys, and what is given out has a place before all tuples of the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.dataflow.calls import in_words
from penstock.dataflow.key_state import Kept, KeyStates
from penstock.dataflow.keyed_state import (
    ALARM,
    HELD,
    NEVER,
    TIMER,
    KeyedState,
    gathered,
    keep_waiting,
    layer_of,
    load,
    state_schema,
)
from penstock.dataflow.keys import Hashes
from penstock.dataflow.layers import DISPLACED, DROPPED, FLAGS, TIME, Assigned, find, hashes_of
from penstock.dataflow.output import Output
from penstock.dataflow.rows import Chunk

if TYPE_CHECKING:
    from penstock.dataflow.wiring import Task

_NONE = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class Called:
    """What became of the keys whose time has come: their states, and the keys themselves."""

    layer: pa.Table
    keys: Chunk


class Due:
    """The keys of one operator whose time has come: by expiry, by timer, or by both."""

    def __init__(
        self,
        task: "Task",
        layers: Sequence[pa.Table],
        clock: int | None,
        now: int,
        own: Callable[[Hashes], NDArray[np.bool_]] | None = None,
    ) -> None:
        ttl = task.spec.ttl
        self.task, self.layers, self._clock = task, layers, clock
        self.oldest = -NEVER if clock is None or ttl is None else clock - int(ttl.seconds * 1e6)
        self.clock, self.now = -NEVER if clock is None else clock, now
        masks = [self._due(layer) for layer in layers]
        hashes = np.unique(
            np.concatenate([hashes_of(t)[m] for t, m in zip(layers, masks, strict=True)] or [_NONE])
        )
        hashes = hashes if own is None else hashes[own(hashes)]
        # A key counts as its topmost layer has it; layers below may have had a timer that is gone.
        found, still = find(layers, hashes), np.zeros(len(hashes), dtype=bool)
        displaced = np.zeros(len(hashes), dtype=bool)
        for number, layer in enumerate(layers):
            here = np.flatnonzero(found.layer == number)
            flags = layer.column(FLAGS).to_numpy()[found.row[here]]
            still[here] = masks[number][found.row[here]] & ((flags & DROPPED) == 0)
            displaced[here] = (flags & DISPLACED) > 0
        chosen = hashes[still]
        count = np.arange(len(chosen))
        self.assigned = Assigned(chosen, count, count, find(layers, chosen), displaced[still])

    def __len__(self) -> int:
        return len(self.assigned.hashes)

    def _due(self, layer: pa.Table) -> NDArray[np.bool_]:
        spec, due = self.task.spec, np.zeros(layer.num_rows, dtype=bool)
        for name, limit in ((TIMER, self.clock), (ALARM, self.now)):
            if spec.on_timer is not None and name in layer.column_names:
                due |= layer.column(name).fill_null(NEVER).to_numpy() <= limit
        if spec.ttl is None:
            return due
        expired = np.asarray(layer.column(TIME).to_numpy()) < self.oldest
        return due & ~expired if spec.on_expiry is None else due | expired

    def called(self, output: Output, timed: bool) -> Called:
        """Make the calls, in order of time; what is given out stands before all tuples of the batch."""
        spec, assigned, layers = self.task.spec, self.assigned, self.layers
        alive = np.ones(len(self), dtype=bool)
        columns = {k: gathered("key_" + k, self._kind(k), assigned, layers, alive) for k in spec.keys}
        keys = pa.table(columns)
        state = load(spec, keys, assigned, layers, None, self._clock)
        times = None
        if spec.ttl is not None:
            times = gathered(TIME, pa.int64(), assigned, layers, alive).to_numpy(zero_copy_only=False)
        place = [-1, -1] if timed else -1
        self._calls(state, keys.to_pylist() or [{}] * len(self), times, output, place)
        schema = state_schema(spec, self.task.context.inputs)
        held = {}
        for port in () if spec.need.immediate else spec.inputs:
            lists = gathered(HELD + port, schema.field(HELD + port).type, assigned, layers, alive)
            held[port] = lists.fill_null([])
        # What expired is gone with what waits for it; a timer that forgets its key forgets its state only.
        keep_waiting(spec, state, held, None if times is None else times >= self.oldest)
        layer = layer_of(schema, spec, state, assigned, times, held)
        return Called(layer, Chunk(keys, np.array([place] * len(self), dtype=np.int64)))

    def _calls(
        self, state: KeyedState, keys: list[dict[str, Any]], times: Any, output: Output, place: Any
    ) -> None:
        spec, states = self.task.spec, KeyStates(self.task, state)
        expired = np.zeros(len(self), dtype=bool) if times is None else times < self.oldest
        if spec.on_expiry is None:
            expired[:] = False
        timer, alarm = (state.columns.get(n, np.full(len(self), NEVER)).copy() for n in (TIMER, ALARM))
        when = np.minimum(np.where(timer <= self.clock, timer, NEVER), alarm)
        for slot in np.lexsort((when, expired)).tolist():
            output.expect(place, single=True, call=slot)
            for name, limit in ((TIMER, self.clock), (ALARM, self.now)):
                if name in state.columns and state.columns[name][slot] <= limit:
                    state.columns[name][slot] = NEVER
            due = timer[slot] <= self.clock or alarm[slot] <= self.now
            values = states.read(slot)
            for call, wanted in ((spec.on_timer, due), (spec.on_expiry, expired[slot])):
                if call is not None and wanted:
                    self._call(call, keys[slot], values, output)
            if expired[slot]:
                values.clear()
            kept = Kept.of({slot: states.encoded(values)})
            states.check(kept)
            states.write(kept)
        output.settle()

    def _call(self, call: Any, key: dict[str, Any], values: Any, output: Output) -> None:
        try:
            call(key, values, output)
        except PenstockError:
            raise
        except Exception as error:
            raise PenstockError(
                f"Operator '{self.task.context.name}' failed with {in_words(error)} in the timer or expiry of the key {key}; "
                "mend the operator."
            ) from error

    def _kind(self, key: str) -> pa.DataType:
        return next(iter(self.task.context.inputs.values())).field(key).type


def stacked(below: pa.Table, above: pa.Table) -> pa.Table:
    """One layer of two, of which the second counts where both have a key."""
    hidden = np.isin(hashes_of(below), hashes_of(above))
    both = pa.concat_tables(
        [below.filter(pa.array(~hidden)), above], promote_options="default"
    ).combine_chunks()
    return both.take(pa.array(np.argsort(hashes_of(both), kind="stable")))
