"""From rows to slots: which distinct keys a micro-batch holds, and where the state of each is.

Keys go by their hash. Two different keys with one hash are found by comparing the key columns, and the later one gets
another hash of the same group, as often as needed; so hashes are an index, never a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core.jit import jit
from penstock.dataflow.keys import Hashes, rehash
from penstock.dataflow.layers import Found, find

Ints = NDArray[np.int64]


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
    same_as_first = ~_differ(keys, np.arange(len(slots)), keys, first[slots])
    if same_as_first.all() and not stranger.any():
        return None
    wrong = ~same_as_first
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
