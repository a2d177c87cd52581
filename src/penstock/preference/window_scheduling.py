"""Who joins which window: the window stage's strategies (PPQ 5.1, Elastic-PPQ 3.2, Alg. 2 and 3).

==========  ================================================================================================
``WIN_RR``  windows belong to workers in turn
``WIN_FB``  each next window, oldest first, goes to the worker that is idle first
``MERGE``   WIN_FB, and workers that find no window join results of a window among themselves beforehand
==========  ================================================================================================

In the papers and in the simulator a worker's message says that it is idle. In a micro-batch all windows are known at
once, so the worker that will be idle first is the one with the fewest rows to join.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.core.allocation import deal


def turn(window: int, workers: int) -> int:
    """The worker whose turn a window is, for ``WIN_RR``."""
    return window % workers


def assign(strategy: str, windows: Sequence[int], work: Sequence[int], workers: int) -> list[list[int]]:
    """Which windows (by place) each worker takes, given their numbers and the rows to join for each.

    >>> assign("WIN_RR", range(4), [9, 1, 1, 1], 2), assign("WIN_FB", range(4), [9, 1, 1, 1], 2)
    ([[0, 2], [1, 3]], [[0], [1, 2, 3]])
    """
    if strategy == "WIN_RR":
        chosen = np.array([turn(number, workers) for number in windows], dtype=np.int64)
    else:
        chosen = deal(work, np.zeros(workers), heaviest_first=False)
    return [np.flatnonzero(chosen == worker).tolist() for worker in range(workers)]


def merge_piles(parts: Sequence[int], sizes: Mapping[int, int], share: int) -> list[list[int]]:
    """Parts of a window in piles that so many workers join beforehand, evenly by rows, largest first.

    >>> merge_piles([7, 8, 9], {7: 5, 8: 3, 9: 1}, 2)
    [[7], [8, 9]]
    """
    ordered = sorted(parts, key=lambda part: -sizes[part])
    piles = deal([sizes[part] for part in ordered], np.zeros(share))
    return [[part for part, own in zip(ordered, piles, strict=True) if own == pile] for pile in range(share)]
