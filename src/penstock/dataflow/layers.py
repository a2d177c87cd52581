"""Keyed state as layers: a base and later changes, each an Arrow table sorted by the keys' hashes.

What a batch changes becomes a new layer on top; a key's state is in the topmost layer that has its hash. Now and then
the layers of some groups are merged into one. Layers are only read, so they can be files mapped into memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.keys import Hashes

HASH, FLAGS, TIME = "__hash", "__flags", "__time"
#: The key was dropped; the key goes by a second hash because another key had its first.
DROPPED, DISPLACED = 1, 2

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """For each key asked for: the layer that has it (-1: none) and the row there."""

    layer: Ints
    row: Ints


def hashes_of(layer: pa.Table) -> Hashes:
    """The sorted hashes of a layer, without copying where the table is one chunk."""
    column = layer.column(HASH)
    if column.num_chunks == 1:
        return np.asarray(column.chunk(0).to_numpy())
    return np.asarray(column.to_numpy())


def find(layers: Sequence[pa.Table], wanted: Hashes) -> Found:
    """Where each of the sorted hashes is: the topmost (last) layer that has it."""
    layer = np.full(len(wanted), -1, dtype=np.int64)
    row = np.zeros(len(wanted), dtype=np.int64)
    for number in range(len(layers) - 1, -1, -1):
        have = hashes_of(layers[number])
        open_ = np.flatnonzero(layer < 0)
        if not len(have) or not len(open_):
            continue
        at = np.minimum(np.searchsorted(have, wanted[open_]), len(have) - 1)
        hit = have[at] == wanted[open_]
        layer[open_[hit]] = number
        row[open_[hit]] = at[hit]
    return Found(layer, row)


def merge(layers: Sequence[pa.Table], expired_before: int | None = None) -> pa.Table:
    """One layer that says what all of them say, without what was dropped or has expired.

    A dropped key stays as a mark while its layers hold a displaced key, which is found only past that mark.
    """
    # Layers of an older version may lack a column, which is then null.
    together = pa.concat_tables(layers, promote_options="default").combine_chunks()
    hashes = hashes_of(together)
    age = np.repeat(np.arange(len(layers))[::-1], [layer.num_rows for layer in layers])
    order = np.lexsort((age, hashes))
    kept = order[np.r_[True, hashes[order][1:] != hashes[order][:-1]]] if len(order) else order
    flags = np.asarray(together.column(FLAGS).to_numpy())[kept]
    if not (flags & DISPLACED).any():
        alive = (flags & DROPPED) == 0
        if expired_before is not None:
            alive &= np.asarray(together.column(TIME).to_numpy())[kept] >= expired_before
        kept = kept[alive]
    return together.take(pa.array(kept))


def part(layer: pa.Table, first: int, end: int) -> pa.Table:
    """The rows whose hashes are from ``first`` up to and without ``end`` (2^64 means: to the last)."""
    have = hashes_of(layer)
    begin = int(np.searchsorted(have, np.uint64(first)))
    stop = len(have) if end >= 2**64 else int(np.searchsorted(have, np.uint64(end)))
    return layer.slice(begin, stop - begin)


def first_hash(group: int, groups: int) -> int:
    """The smallest hash that belongs to a group; of ``groups`` itself: 2^64.

    >>> first_hash(0, 256), first_hash(256, 256) == 2**64
    (0, True)
    """
    return -(-(group << 16) // groups) << 48
