"""Tuples that wait until a firing rule is met: kept as a list column beside the key's state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.dataflow.keyed_state import HELD, KeyedState, gathered
from penstock.dataflow.layers import Assigned
from penstock.dataflow.operators import Spec
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import rank_in_key


@dataclass(frozen=True)
class Held:
    """What goes on waiting: one list a key, by port."""

    lists: dict[str, pa.Array]
    count: int
    #: The fullest queue of any key and port, as a share of what may wait there without a warning.
    fullest: float


class BufferedTuples:
    """What came with what waited before, by port and key, the latter first."""

    def __init__(
        self,
        spec: Spec,
        arrived: Mapping[str, Rows],
        assigned: Assigned,
        layers: Sequence[pa.Table],
        state: KeyedState,
    ) -> None:
        self.spec, self.keys = spec, len(state)
        self.queues = {p: _queue(p, rows, assigned, layers, ~state.new) for p, rows in arrived.items()}
        self.counts = {p: np.bincount(q.slots, minlength=self.keys) for p, q in self.queues.items()}

    def takes(self, state: KeyedState) -> dict[str, Ints]:
        """How many tuples of each port are handed over now, by key, each key by its own rule."""
        taken = {port: np.zeros(self.keys, dtype=np.int64) for port in self.queues}
        for rule, slots in state.rules(self.spec):
            here = rule.takes({port: counts[slots] for port, counts in self.counts.items()})
            for port, counts in here.items():
                taken[port][slots] = counts
        return taken

    def ready(self, taken: Mapping[str, Ints]) -> dict[str, Rows]:
        """The tuples that are handed over."""
        return {port: self._part(port, taken[port], rest=False) for port in self.queues}

    def held(self, taken: Mapping[str, Ints]) -> Held:
        """The tuples that are not."""
        lists, left, fullest = {}, 0, 0
        for port in self.queues:
            counts = self.counts[port] - taken[port]
            lists[port] = _lists(self._part(port, taken[port], rest=True).table, counts)
            left += int(counts.sum())
            fullest = max(fullest, int(counts.max(initial=0)))
        return Held(lists, left, fullest / self.spec.need.hold)

    def _part(self, port: str, taken: Ints, rest: bool) -> Rows:
        queue = self.queues[port]
        ready = rank_in_key(queue.slots, self.keys) < taken[queue.slots]
        return queue.take(np.flatnonzero(ready != rest))


def _queue(
    port: str, rows: Rows, assigned: Assigned, layers: Sequence[pa.Table], alive: NDArray[np.bool_]
) -> Rows:
    """Held tuples and new ones by key, the held ones first."""
    kind = pa.list_(pa.struct(list(rows.table.schema)))
    lists = gathered(HELD + port, kind, assigned, layers, alive).fill_null([])
    counts = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    before = pa.Table.from_batches([pa.RecordBatch.from_struct_array(lists.flatten().cast(kind.value_type))])
    slots = np.concatenate([np.repeat(np.arange(len(alive)), counts), rows.slots])
    # What waited came before everything that comes now.
    old = np.full((before.num_rows, *rows.positions.shape[1:]), -1, dtype=np.int64)
    table = pa.concat_tables([before.cast(rows.table.schema), rows.table])
    whole = Rows(table, np.concatenate([old, rows.positions]), slots, len(alive))
    return whole.take(np.argsort(slots, kind="stable"))


def _lists(table: pa.Table, counts: Ints) -> pa.Array:
    struct = table.to_struct_array()
    flat = (
        pa.concat_arrays(struct.chunks) if struct.num_chunks else pa.array([], pa.struct(list(table.schema)))
    )
    offsets = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), flat)
