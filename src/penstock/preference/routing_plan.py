"""Who gets a row where many input partitions route at once: the pane strategies without a common queue to look at.

Alg. 1 of PPQ (:mod:`penstock.preference.scheduling`) sees every row and every queue. Input partitions of a micro-batch
see neither, so each cuts its own rows of a pane into chunks and sends chunk after chunk down the list of workers that
was made from the loads of the batch before: the owner of a pane changes when its share is full.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.core.arrays import Ints
from penstock.core.grouping import numbered, stable_order
from penstock.preference.scheduling import IN_TURN, in_turn


@dataclass(frozen=True)
class RoutingPlan:
    """Where rows go in this batch: a value made by the driver, the same for all input partitions.

    ``order`` lists the workers, least loaded first. A pane starts with its owner and moves to the next worker of the list
    each time a share of ``threshold`` rows is full. The first pane that is new goes to the least loaded worker, the ones
    after it to the next ones: no input partition needs to know which new panes the others see.
    """

    strategy: str
    workers: int
    order: tuple[int, ...]
    threshold: float = float("inf")
    inputs: int = 1
    #: Open pane -> (owner, rows the owner has of it).
    owners: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    #: Panes below have closed: where none is open, this one is the first that is new.
    closed: int = 0

    def assign(self, panes: Ints) -> Ints:
        """The worker of each row, given the rows' panes in order of arrival.

        >>> plan = RoutingPlan("AS", workers=2, order=(1, 0), threshold=2)
        >>> plan.assign(np.array([0, 0, 0, 5])).tolist()
        [1, 1, 0, 0]
        >>> RoutingPlan("AS", workers=3, order=(2, 0, 1), owners={7: (1, 5)}).assign(np.array([7, 8, 9])).tolist()
        [1, 2, 0]
        >>> RoutingPlan("AS", workers=3, order=(2, 0, 1), closed=8).assign(np.array([8, 9])).tolist()
        [2, 0]
        """
        if self.strategy in IN_TURN:
            return in_turn(self.strategy, panes, self.workers)
        distinct, index = numbered(panes)
        position = np.argsort(np.asarray(self.order))
        new = max([pane + 1 for pane in self.owners] + [self.closed])
        first, room = np.empty(len(distinct), dtype=np.int64), np.empty(len(distinct))
        for at, pane in enumerate(distinct.tolist()):
            owner, held = self.owners.get(pane, (-1, 0))
            known = 0 <= owner < self.workers
            first[at] = position[owner] if known else (pane - new) % self.workers
            room[at] = self._share(self.threshold - (held if known else 0))
        # Full shares before the row: none while the first owner has room.
        moved = np.zeros(len(panes), dtype=np.int64)
        if np.isfinite(self.threshold):
            beyond = _rank(index, len(distinct)) - room[index]
            moved = np.maximum(np.floor(beyond / self._share(self.threshold)) + 1, 0).astype(np.int64)
        workers: Ints = np.asarray(self.order)[(first[index] + moved) % self.workers]
        return workers

    def _share(self, rows: float) -> float:
        """The part of a number of rows that one input partition may send."""
        return max(rows / self.inputs, 1.0) if rows > 0 else 0.0


def _rank(index: Ints, groups: int) -> Ints:
    """The how-manieth row of its group each row is."""
    order = stable_order(index, groups)
    starts = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(index, minlength=groups), out=starts[1:])
    rank = np.empty(len(index), dtype=np.int64)
    rank[order] = np.arange(len(index)) - starts[index[order]]
    return rank
