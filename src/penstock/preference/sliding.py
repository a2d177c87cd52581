"""Skylines of sliding windows with one pass of cross tests a pane, however many windows overlap.

A row of pane p belongs to the skyline of the window of panes [s, e] exactly if
  it is not dominated within its own pane,
  no row of a later pane <= e dominates it, and
  the latest earlier pane with a row that dominates it is < s.
So two facts a row are enough for all its windows. The *live set* holds the rows that nothing newer dominates,
each with its pane and its latest earlier dominator's pane. It is also enough to find those facts for new rows: a
dominator that is not live has a newer, live one above it, which dominates the same rows. (The pairing of each
row with its youngest older dominator is that of Lin et al.: Stabbing the sky, 2005.)
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Ints
from penstock.preference.cross import NEVER, dominated_by, latest_dominator
from penstock.preference.partial import Partial
from penstock.preference.points import Codes, Mask, Points, Rows

Numbers = Ints


@dataclass(frozen=True)
class LiveSet:
    """Rows that nothing newer dominates; all arrays have one entry a row, panes ascend.

    ``earlier`` is the latest earlier pane with a dominator, or ``NEVER``; ``classes`` is None for one class.

    >>> live = LiveSet.empty(width=2).advance(0, np.array([[1.0, 1.0]])).advance(1, np.array([[2.0, 2.0], [0.0, 9.0]]))
    >>> live.window(0, 1).tolist(), live.window(1, 1).tolist()
    ([0, 2], [1, 2])
    """

    ids: Rows
    points: Points
    panes: Numbers
    earlier: Numbers
    classes: Codes | None
    newest: int = NEVER
    next_id: int = 0

    @classmethod
    def empty(cls, width: int, with_classes: bool = False) -> "LiveSet":
        """No rows yet, points of the given number of attributes."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, np.zeros((0, width)), none, none, none if with_classes else None)

    def __len__(self) -> int:
        return len(self.ids)

    def advance(
        self, pane: int, points: Points, classes: Codes | None = None, ids: Rows | None = None
    ) -> "LiveSet":
        """Add the skyline of the next nonempty pane; panes must come in ascending order, gaps are fine.

        Without ``ids`` the rows are numbered on from the last ones.
        """
        if pane <= self.newest:
            raise ValueError(f"pane {pane} comes after pane {self.newest}; panes must ascend")
        if ids is None:
            ids = np.arange(self.next_id, self.next_id + len(points), dtype=np.int64)
        stays = ~dominated_by(self.points, points, self.classes, classes)
        earlier = latest_dominator(points, self.points, self.panes, classes, self.classes)
        new = LiveSet(ids, points, np.full(len(points), pane, dtype=np.int64), earlier, classes)
        kept = self.take(stays)
        return LiveSet(
            np.concatenate([kept.ids, new.ids]),
            np.concatenate([kept.points, new.points]),
            np.concatenate([kept.panes, new.panes]),
            np.concatenate([kept.earlier, new.earlier]),
            None if kept.classes is None or classes is None else np.concatenate([kept.classes, classes]),
            newest=pane,
            next_id=self.next_id + len(points),
        )

    def members(self, start: int, end: int) -> Mask:
        """Which of the live rows make up the window of panes [start, end]; ``end`` is the newest pane or later."""
        if end < self.newest:
            raise ValueError(f"the window ends at pane {end}, but pane {self.newest} has been added already")
        return (self.panes >= start) & (self.earlier < start)

    def window(self, start: int, end: int) -> Rows:
        """Ids of the rows of the window of panes [start, end], oldest pane first."""
        return self.ids[self.members(start, end)]

    def part(self, start: int, end: int) -> Partial:
        """The rows of the window of panes [start, end] as a partial result."""
        rows = np.flatnonzero(self.members(start, end))
        return Partial(self.ids, self.points, self.classes).take(rows)

    def expire(self, before: int) -> "LiveSet":
        """Forget rows of panes below ``before``: no window to come holds them."""
        return self.take(self.panes >= before)

    def take(self, rows: Mask | Rows) -> "LiveSet":
        """The same set with some of its rows."""
        return LiveSet(
            self.ids[rows],
            self.points[rows],
            self.panes[rows],
            self.earlier[rows],
            None if self.classes is None else self.classes[rows],
            self.newest,
            self.next_id,
        )
