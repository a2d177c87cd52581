"""A store of points that answers: is there a row that dominates this one, and which is the first?

Codes stand by columns in blocks of 64 rows, so that a block is tested with one comparison an attribute; the smallest
codes of 64 blocks stand likewise in a block above, so that blocks which cannot hold a dominator are passed over 64
at a time. Rows put in by octant (see :mod:`penstock.preference.grid`) make blocks of neighbours, most of which are
passed over.
"""

import numpy as np

from penstock.core.arrays import Bytes, Floats, Ints
from penstock.core.jit import jit
from penstock.preference.grid import EMPTY, padded
from penstock.preference.points import Points
from penstock.preference.simd import (
    Word,
    copy4,
    copy8,
    le4,
    le8,
    lowest_bit,
    lt4,
    lt8,
    not_above,
    smallest_of,
    spread4,
)

Places = Ints
Store = tuple[Bytes, Bytes, Floats]


@jit(forceinline=True)
def lanes(width: int) -> int:
    """Numbers a stored row takes: four, or a multiple of eight; the added ones are zero and compare as equal."""
    return 4 if width <= 4 else (width + 7) // 8 * 8


@jit
def new_store(capacity: int, width: int) -> Store:
    """(codes of blocks, smallest codes of blocks, rows) with room for ``capacity`` rows."""
    depth = padded(width)
    blocks = (capacity + 63) // 64
    supers = (blocks + 63) // 64
    return (
        np.full(blocks * 64 * depth, EMPTY, dtype=np.uint8),
        np.full(supers * 64 * depth, EMPTY, dtype=np.uint8),
        np.zeros(capacity * lanes(width)),
    )


@jit(forceinline=True)
def put(
    columns: Bytes,
    smallest: Bytes,
    rows: Floats,
    place: int,
    codes: Bytes,
    c: int,
    row: Floats,
    r: int,
    width: int,
) -> None:
    """Write a row, ``width`` numbers from ``row[r]``, and its codes, from ``codes[c]``, at a place of the store."""
    depth = padded(width)
    block, lane = place >> 6, place & 63
    above = (block >> 6) * depth * 64 + (block & 63)
    at = block * depth * 64 + lane
    k = 0
    while k < depth:
        spread4(columns, at + k * 64, codes, c + k)
        k += 4
    for k in range(depth):
        smallest[above + k * 64] = min(smallest[above + k * 64], codes[c + k])
    copy_row(rows, place * lanes(width), row, r, width)


@jit(forceinline=True)
def copy_row(to: Floats, i: int, source: Floats, j: int, width: int) -> None:
    """Copy ``width`` numbers from ``source[j]`` to ``to[i]``."""
    if width == 8:
        copy8(to, i, source, j)
    elif width == 4:
        copy4(to, i, source, j)
    else:
        for k in range(width):
            to[i + k] = source[j + k]


@jit
def filled_store(points: Points, codes: Bytes, order: Places) -> Store:
    """A store of all the points in the given order; ``codes`` has the codes of row after row."""
    count, width = points.shape
    depth, step = padded(width), lanes(width)
    columns, smallest, rows = new_store(count, width)
    flat = points.reshape(-1)
    for place in range(count):
        i = order[place]
        at = (place >> 6) * depth * 64 + (place & 63)
        k = 0
        while k < depth:
            spread4(columns, at + k * 64, codes, i * depth + k)
            k += 4
        copy_row(rows, place * step, flat, i * width, width)
    for block in range((count + 63) >> 6):
        above = (block >> 6) * depth * 64 + (block & 63)
        for k in range(depth):
            smallest[above + k * 64] = smallest_of(columns, (block * depth + k) * 64)
    return columns, smallest, rows


@jit(forceinline=True)
def not_above_all(columns: Bytes, offset: int, codes: Bytes, c: int, depth: int) -> Word:
    """Which of 64 places have no code above those from ``codes[c]``.

    No branch among the first eight attributes: a mispredicted one costs more than the comparisons it saves (measured:
    four times the time of the whole scan).
    """
    mask = _next_four(columns, offset, codes, c)
    if depth > 4:
        mask &= _next_four(columns, offset + 256, codes, c + 4)
    k = 8
    while k < depth and mask != 0:
        mask &= _next_four(columns, offset + k * 64, codes, c + k)
        k += 4
    return mask


@jit(forceinline=True)
def _next_four(columns: Bytes, offset: int, codes: Bytes, c: int) -> Word:
    return (
        not_above(columns, offset, codes[c])
        & not_above(columns, offset + 64, codes[c + 1])
        & not_above(columns, offset + 128, codes[c + 2])
        & not_above(columns, offset + 192, codes[c + 3])
    )


@jit(forceinline=True)
def first_dominator(
    columns: Bytes,
    smallest: Bytes,
    rows: Floats,
    count: int,
    codes: Bytes,
    c: int,
    row: Floats,
    r: int,
    depth: int,
    step: int,
) -> int:
    """The first place among ``count`` whose row dominates the row at ``row[r]`` with codes at ``codes[c]``, or -1.

    The row must have as many lanes as stored ones.
    """
    supers = (((count + 63) >> 6) + 63) >> 6
    for s in range(supers):
        blocks = not_above_all(smallest, s * depth * 64, codes, c, depth)
        while blocks:
            block = s * 64 + lowest_bit(blocks)
            blocks &= blocks - np.uint64(1)
            hits = not_above_all(columns, block * depth * 64, codes, c, depth)
            while hits:
                place = block * 64 + lowest_bit(hits)
                hits &= hits - np.uint64(1)
                if row_dominates(rows, place * step, row, r, step):
                    return place
    return -1


@jit(forceinline=True)
def row_dominates(left: Floats, i: int, right: Floats, j: int, step: int) -> bool:
    """Whether the left row is nowhere worse and somewhere better than the right one; rows of whole lanes."""
    if step == 4:
        return bool(le4(left, i, right, j) == 15 and lt4(left, i, right, j) != 0)
    better = False
    k = 0
    while k < step:
        if le8(left, i + k, right, j + k) != 255:
            return False
        better |= lt8(left, i + k, right, j + k) != 0
        k += 8
    return better
