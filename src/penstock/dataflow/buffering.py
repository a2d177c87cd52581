"""Tuples that wait until an operator's need is met: kept as a list column beside the key's state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.operators import Spec
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import rank_in_key
from penstock.dataflow.slots import Assigned
from penstock.dataflow.state import HELD, gathered

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Release:
    """What is handed over now, by port, and what goes on waiting, as one list a key."""

    rows: dict[str, Rows]
    held: dict[str, pa.Array]
    #: For how many calls all ports have enough, by key.
    firings: Ints
    waiting: int
    #: The fullest queue of any key and port, as a share of what may wait there.
    fullest: float = 0.0


def deliver(
    spec: Spec,
    arrived: Mapping[str, Rows],
    assigned: Assigned,
    layers: Sequence[pa.Table],
    alive: NDArray[np.bool_],
) -> Release:
    """Add what came to what waited, and take what the need allows."""
    keys = len(alive)
    queues = {port: _queue(port, rows, assigned, layers, alive) for port, rows in arrived.items()}
    waiting = {port: np.bincount(q.slots, minlength=keys) for port, q in queues.items()}
    takes = spec.need.takes(waiting)
    rows, held, left, fullest = {}, {}, 0, 0.0
    for port, queue in queues.items():
        ready = rank_in_key(queue.slots, keys) < takes[port][queue.slots]
        rows[port] = queue.take(np.flatnonzero(ready))
        rest = queue.take(np.flatnonzero(~ready))
        counts = waiting[port] - takes[port]
        held[port] = _lists(rest.table, counts)
        left += int(counts.sum())
        fullest = max(fullest, float(counts.max(initial=0)) / spec.need.hold)
    return Release(rows, held, spec.need.firings(waiting), left, fullest)


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
