"""Who gets a row: Alg. 1 of PPQ and Elastic-PPQ over whole arrays of rows, and worker removal (Alg. 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.core.arrays import Ints
from penstock.core.jit import jit

Numbers = Ints

#: Strategies that look at no load.
IN_TURN = ("PB_RR", "TB_RR")


@dataclass(frozen=True)
class OpenPane:
    """A pane that rows still come for: its owner now, and how many rows each worker has got of it."""

    owner: int
    sizes: tuple[int, ...]

    @property
    def partitions(self) -> int:
        """Workers that hold rows of it."""
        return sum(size > 0 for size in self.sizes)


@dataclass(frozen=True)
class Assignment:
    """The worker of each row; the open panes, the workers' loads and the place to look first, after these rows."""

    workers: Numbers
    panes: Mapping[int, OpenPane] = field(default_factory=dict)
    loads: tuple[int, ...] = ()
    rotation: int = 0


def in_turn(strategy: str, panes: Numbers, workers: int, rotation: int = 0) -> Numbers:
    """The worker of each row where nobody's load counts: panes in turn (``PB_RR``) or rows in turn (``TB_RR``)."""
    turns = panes if strategy == "PB_RR" else rotation + np.arange(len(panes), dtype=np.int64)
    return np.mod(turns, workers)


def assign(
    strategy: str,
    threshold: float,
    panes: Numbers,
    open_panes: Mapping[int, OpenPane],
    loads: Sequence[int],
    rotation: int = 0,
) -> Assignment:
    """Send rows, given by their panes in order of arrival, to workers; ``loads`` are the rows queued at each.

    A pane's first row goes to the least loaded worker (ties rotate), which becomes its owner; once the owner has got
    ``threshold`` rows of it, the then least loaded worker takes over, and re-uses the partition it may hold.

    >>> assign("AS", 2, np.array([7, 7, 7, 7]), {}, [0, 0]).workers.tolist()
    [0, 0, 1, 1]
    """
    count = len(loads)
    distinct, index = np.unique(panes, return_inverse=True)
    sizes = np.zeros((len(distinct), count), dtype=np.int64)
    owners = np.full(len(distinct), -1, dtype=np.int64)
    for at, pane in enumerate(distinct.tolist()):
        if pane in open_panes:
            sizes[at, : len(open_panes[pane].sizes)] = open_panes[pane].sizes[:count]
            owners[at] = open_panes[pane].owner
    queued = np.array(loads, dtype=np.int64)
    if strategy in IN_TURN:
        workers = in_turn(strategy, panes, count, rotation)
        rotation = int((rotation + len(panes)) % count) if strategy == "TB_RR" else rotation
        np.add.at(sizes, (index, workers), 1)
        np.add.at(queued, workers, 1)
        owners[index] = workers
    else:
        workers, rotation = _split(index.astype(np.int64), float(threshold), owners, sizes, queued, rotation)
    after = dict(open_panes)
    for at, pane in enumerate(distinct.tolist()):
        after[pane] = OpenPane(int(owners[at]), tuple(sizes[at].tolist()))
    return Assignment(workers, after, tuple(queued.tolist()), int(rotation))


def handed_over(
    open_panes: Mapping[int, OpenPane], removed: Sequence[int], loads: Sequence[int]
) -> tuple[dict[int, OpenPane], dict[int, list[int]]]:
    """Owners after workers have gone (Elastic-PPQ Alg. 4): (the open panes, worker -> panes closed by force).

    The least loaded of the workers that stay becomes the owner. A partition of a removed worker is closed by force
    and counts as zero from now on; the window stage merges it like any other.
    """
    staying = [w for w in range(len(loads)) if w not in set(removed)]
    after: dict[int, OpenPane] = {}
    forced: dict[int, list[int]] = {w: [] for w in removed}
    queued = {w: int(loads[w]) for w in staying}
    for pane, held in open_panes.items():
        for worker in removed:
            # A pane that got no row since workers came does not know of them.
            if worker < len(held.sizes) and held.sizes[worker]:
                forced[worker].append(pane)
        sizes = tuple(0 if w in set(removed) else size for w, size in enumerate(held.sizes))
        owner = held.owner
        if owner in set(removed):
            owner = min(queued, key=lambda w: (queued[w], w))
            queued[owner] += 1
        after[pane] = OpenPane(owner, sizes)
    return after, forced


@jit
def _split(
    index: Numbers, threshold: float, owners: Numbers, sizes: Numbers, queued: Numbers, rotation: int
) -> tuple[Numbers, int]:
    workers = np.empty(len(index), dtype=np.int64)
    count = len(queued)
    for row in range(len(index)):
        pane = index[row]
        if owners[pane] < 0 or sizes[pane, owners[pane]] >= threshold:
            least = rotation % count
            for step in range(1, count):
                other = (rotation + step) % count
                if queued[other] < queued[least]:
                    least = other
            owners[pane] = least
            rotation = (least + 1) % count
        worker = owners[pane]
        workers[row] = worker
        sizes[pane, worker] += 1
        queued[worker] += 1
    return workers, rotation
