"""Keyed state as layers, and which keys a micro-batch holds.

A base and later changes are each an Arrow table sorted by the keys' hashes. What a batch changes becomes a new layer on
top; a key's state is in the topmost layer that has its hash. Now and then the layers of some groups are merged into one.
Layers are only read, so they can be files mapped into memory.

Each distinct key of a batch has a *slot*. Keys go by their hash. Two different keys with one hash are found by comparing
the key columns, and the later one gets another hash of the same group, as often as needed; so hashes are an index, never
a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.core.jit import jit
from penstock.dataflow.keys import Hashes, rehash

HASH, FLAGS, TIME = "__hash", "__flags", "__time"
#: The key was dropped; the key goes by a second hash because another key had its first.
DROPPED, DISPLACED = 1, 2

#: Times as many hashes as are looked for that are gone through one by one; among more they are searched for.
_FEW = 8


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
        if len(have) <= _FEW * len(wanted):
            _walk(have, wanted, number, layer, row)
            continue
        open_ = np.flatnonzero(layer < 0)
        if not len(open_):
            break
        at = np.minimum(np.searchsorted(have, wanted[open_]), len(have) - 1)
        hit = have[at] == wanted[open_]
        layer[open_[hit]] = number
        row[open_[hit]] = at[hit]
    return Found(layer, row)


@jit
def _walk(have: Hashes, wanted: Hashes, number: int, layer: Ints, row: Ints) -> None:
    """Go through both sorted lists once and note what is found of what is not found yet."""
    at = 0
    for asked in range(len(wanted)):
        while at < len(have) and have[at] < wanted[asked]:
            at += 1
        if at == len(have):
            return
        if layer[asked] < 0 and have[at] == wanted[asked]:
            layer[asked], row[asked] = number, at


def overlaid(layers: Sequence[pa.Table]) -> pa.Table:
    """One layer that says what these say on top of others; keys that were dropped stay marked as such."""
    # Layers of an older version may lack a column, which is then null.
    together = pa.concat_tables(layers, promote_options="default").combine_chunks()
    hashes = hashes_of(together)
    age = np.repeat(np.arange(len(layers))[::-1], [layer.num_rows for layer in layers])
    order = np.lexsort((age, hashes))
    kept = order[np.r_[True, hashes[order][1:] != hashes[order][:-1]]] if len(order) else order
    return together.take(pa.array(kept))


def merge(layers: Sequence[pa.Table], expired_before: int | None = None) -> pa.Table:
    """One layer that says what all of them say, without what was dropped or has expired.

    A dropped key stays as a mark while its layers hold a displaced key, which is found only past that mark.
    """
    together = overlaid(layers)
    flags = np.asarray(together.column(FLAGS).to_numpy())
    if (flags & DISPLACED).any():
        return together
    alive = (flags & DROPPED) == 0
    if expired_before is not None:
        alive &= np.asarray(together.column(TIME).to_numpy()) >= expired_before
    return together if alive.all() else together.filter(pa.array(alive)).combine_chunks()


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


@dataclass(frozen=True)
class Assigned:
    """Distinct keys in order of hash, each row's key, a row of each key, and where the layers have the key."""

    hashes: Hashes
    slots: Ints
    first: Ints
    found: Found
    #: Keys that do not have their own first hash because another key had it.
    displaced: NDArray[np.bool_]


def assign(keys: pa.Table, hashes: Hashes, layers: Sequence[pa.Table]) -> Assigned:
    """Give every row a slot; ``keys`` holds the key columns of the rows, named as in the layers."""
    hashes, displaced = hashes.copy(), np.zeros(len(hashes), dtype=bool)
    while True:
        codes, first = _factorize(hashes)
        order = np.argsort(hashes[first])
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        slots, first = rank[codes], first[order]
        distinct = hashes[first]
        found = find(layers, distinct)
        wrong = _mismatched(keys, slots, first, found, layers)
        if wrong is None:
            return Assigned(distinct, slots, first, found, displaced[first])
        hashes[wrong] = rehash(hashes[wrong])
        displaced |= wrong


def _mismatched(
    keys: pa.Table, slots: Ints, first: Ints, found: Found, layers: Sequence[pa.Table]
) -> NDArray[np.bool_] | None:
    """Rows whose key is not the one that their slot stands for: the stored key or else the first row's."""
    if not keys.num_columns or not len(slots):
        return None
    stranger = np.zeros(
        len(first), dtype=bool
    )  # slots whose first row is not what the state has under that hash
    for number, layer in enumerate(layers):
        here = np.flatnonzero(found.layer == number)
        if len(here):
            stranger[here] = _differ(keys, first[here], layer, found.row[here])
    wrong = np.zeros(len(slots), dtype=bool)
    if len(first) < len(slots):  # else every row is the first of its slot
        wrong = _differ(keys, np.arange(len(slots)), keys, first[slots])
    if not wrong.any() and not stranger.any():
        return None
    for slot in np.flatnonzero(stranger):  # rare beyond measure: go through the slot's rows one by one
        rows = np.flatnonzero(slots == slot)
        stored = np.full(len(rows), found.row[slot])
        wrong[rows] = _differ(keys, rows, layers[found.layer[slot]], stored)
    return wrong


def _differ(left: pa.Table, left_rows: Ints, right: pa.Table, right_rows: Ints) -> NDArray[np.bool_]:
    out = np.zeros(len(left_rows), dtype=bool)
    for name in left.column_names:
        a = left.column(name).take(pa.array(left_rows))
        b = right.column(name).take(pa.array(right_rows))
        out |= pc.not_equal(a, b).to_numpy()
    return out


@jit
def _factorize(hashes: Hashes) -> tuple[Ints, Ints]:
    """Number the distinct values in order of appearance; each row's number and each number's first row."""
    size = 16
    while size < 2 * len(hashes):
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, -1, dtype=np.int64)
    codes = np.empty(len(hashes), dtype=np.int64)
    first = np.empty(len(hashes), dtype=np.int64)
    count = 0
    for row in range(len(hashes)):
        at = hashes[row] & mask
        while True:
            code = table[at]
            if code < 0:
                table[at] = count
                first[count] = row
                codes[row] = count
                count += 1
                break
            if hashes[first[code]] == hashes[row]:
                codes[row] = code
                break
            at = (at + np.uint64(1)) & mask
    return codes, first[:count].copy()


@jit
def grouped(slots: Ints, count: int) -> tuple[Ints, Ints]:
    """The rows by slot, each slot's in their order, and where each slot's begin (and the last one's end).

    >>> grouped(np.array([1, 0, 1]), 3)
    (array([1, 0, 2]), array([0, 1, 3, 3]))
    """
    bounds = np.zeros(count + 1, dtype=np.int64)
    for slot in slots:
        bounds[slot + 1] += 1
    for slot in range(count):
        bounds[slot + 1] += bounds[slot]
    order, free = np.empty(len(slots), dtype=np.int64), bounds.copy()
    for row in range(len(slots)):
        order[free[slots[row]]] = row
        free[slots[row]] += 1
    return order, bounds
