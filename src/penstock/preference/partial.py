"""Partial results as values: the rows that a pane, a part of it, or a window keeps."""

from dataclasses import dataclass

import numpy as np

from penstock.preference.points import Codes, Points, Rows
from penstock.preference.preference import Preference


@dataclass(frozen=True)
class Partial:
    """A partial result: ids, points and classes of its rows."""

    ids: Rows
    points: Points
    classes: Codes | None = None

    def take(self, rows: Rows) -> "Partial":
        """Some of the rows."""
        return Partial(
            self.ids[rows], self.points[rows], None if self.classes is None else self.classes[rows]
        )


def merged(preference: Preference, left: Partial, right: Partial) -> Partial:
    """The merge of two partial results, rows of the left first."""
    kept_left, kept_right = preference.merge(left.points, right.points, left.classes, right.classes)
    a, b = left.take(kept_left), right.take(kept_right)
    return Partial(
        np.concatenate([a.ids, b.ids]),
        np.concatenate([a.points, b.points]),
        None if a.classes is None or b.classes is None else np.concatenate([a.classes, b.classes]),
    )
