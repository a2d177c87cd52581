"""Sliding-window aggregation for any preference with an associative merge: about three merges a pane.

The panes of a window are split in two. The *front* holds for each of its panes p the merge of p and all later front
panes (a suffix); the *back* holds one merge of all its panes. A window [s, e] is then one merge: the front's suffix
from s with the back. When the window has left the front behind, the back's panes are turned into a new front,
one merge each. (Tangwongsan et al.: Low-latency sliding-window aggregation in worst-case constant time, 2017.)
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.preference.partial import Partial, merged
from penstock.preference.points import Codes, Points, Rows
from penstock.preference.preference import Preference

__all__ = ["TwoStacks", "Partial", "merged"]


@dataclass(frozen=True)
class TwoStacks:
    """Panes of the windows to come: suffixes of the front by pane, raw back panes, and their merge.

    >>> from penstock.preference.builders import top_k_of
    >>> stacks = TwoStacks(top_k_of(1, by="x")).advance(0, np.array([[1.0]])).advance(1, np.array([[2.0]]))
    >>> stacks.window(0, 1).tolist(), stacks.expire(1).window(1, 1).tolist()
    ([0], [1])
    """

    preference: Preference
    front: tuple[tuple[int, Partial], ...] = ()
    back: tuple[tuple[int, Partial], ...] = ()
    back_merge: Partial | None = None
    newest: int | None = None
    next_id: int = 0
    merges: int = 0

    def advance(
        self, pane: int, points: Points, classes: Codes | None = None, ids: Rows | None = None
    ) -> "TwoStacks":
        """Add the partial result of the next nonempty pane; panes must come in ascending order, gaps are fine."""
        if self.newest is not None and pane <= self.newest:
            raise ValueError(f"pane {pane} comes after pane {self.newest}; panes must ascend")
        if ids is None:
            ids = np.arange(self.next_id, self.next_id + len(points), dtype=np.int64)
        new = Partial(ids, points, classes)
        first = self.back_merge is None
        return replace(
            self,
            back=(*self.back, (pane, new)),
            back_merge=new if self.back_merge is None else merged(self.preference, self.back_merge, new),
            newest=pane,
            next_id=self.next_id + len(points),
            merges=self.merges + (not first),
        )

    def part(self, start: int, end: int) -> Partial:
        """The partial result of the window of panes [start, end]; ``end`` is the newest pane or later."""
        if self.newest is not None and end < self.newest:
            raise ValueError(f"the window ends at pane {end}, but pane {self.newest} has been added already")
        stacks = self.expire(start)
        if not stacks.front or stacks.back_merge is None:
            return stacks.front[0][1] if stacks.front else stacks.back_merge or self._nothing()
        return merged(self.preference, stacks.front[0][1], stacks.back_merge)

    def window(self, start: int, end: int) -> Rows:
        """Ids of the rows of the window of panes [start, end], oldest pane first.

        Call ``expire(start)`` before, or the turning of the back is done for this window alone.
        """
        return self.part(start, end).ids

    def expire(self, before: int) -> "TwoStacks":
        """Forget panes below ``before``; a back that reaches below it becomes the front."""
        front = tuple(item for item in self.front if item[0] >= before)
        stacks = replace(self, front=front)
        if self.back and self.back[0][0] < before:
            kept = tuple(item for item in self.back if item[0] >= before)
            stacks = replace(stacks, back=kept, back_merge=None)._flipped()
        return stacks

    def _flipped(self) -> "TwoStacks":
        """The back's panes as a new front of suffixes, newest first merged."""
        suffixes: list[tuple[int, Partial]] = []
        for pane, part in reversed(self.back):
            suffixes.append((pane, merged(self.preference, part, suffixes[-1][1]) if suffixes else part))
        merges = self.merges + max(len(self.back) - 1, 0)
        return replace(self, front=tuple(reversed(suffixes)), back=(), back_merge=None, merges=merges)

    def _nothing(self) -> Partial:
        width = sum(a.direction != "diff" for a in self.preference.attributes)
        return Partial(np.zeros(0, dtype=np.int64), np.zeros((0, width)))
