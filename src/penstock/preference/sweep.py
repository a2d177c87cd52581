"""The skyline of one or two attributes: one sort and one sweep (Kung, Luccio, Preparata 1975)."""

import numpy as np

from penstock.core.jit import jit
from penstock.preference.points import Mask, Points, Rows


@jit
def sweep(points: Points, rows: Rows, keep: Mask) -> bool:
    """Mark those of the rows that none of them dominates; True if there was a NaN.

    In order of the first attribute, a row stays if its second is the smallest among equal firsts and smaller than all
    before. A single attribute counts as the second of rows that are equal in the first.
    """
    count, width = len(rows), points.shape[1]
    first, second = np.zeros(count), np.empty(count)
    for i in range(count):
        if width == 2:
            first[i] = points[rows[i], 0]
        second[i] = points[rows[i], width - 1]
        if first[i] != first[i] or second[i] != second[i]:
            return True
    order = np.argsort(first)
    lowest, anything, start = 0.0, False, 0
    while start < count:
        end = start
        least = second[order[start]]
        while end < count and first[order[end]] == first[order[start]]:
            least = min(least, second[order[end]])
            end += 1
        if not anything or least < lowest:
            for place in range(start, end):
                keep[rows[order[place]]] = second[order[place]] == least
            lowest, anything = least, True
        start = end
    return False
