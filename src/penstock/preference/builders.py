"""Preferences over named columns, as a user writes them: ``skyline_of(minimize("price"), maximize("rating"))``."""

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.preference import best, factor
from penstock.preference.cross import merge_skylines
from penstock.preference.points import (
    Attribute,
    Classes,
    Codes,
    Points,
    Rows,
    as_points,
    diff,
    maximize,
    members,
    minimize,
    ranked,
)
from penstock.preference.preference import Extras, Preference
from penstock.preference.skyline import first_of_equals, skyline

__all__ = ["minimize", "maximize", "diff", "skyline_of", "k_dominant_of", "top_delta_of", "top_k_of"]


def skyline_of(*attributes: Attribute, distinct: bool = False) -> "Skyline":
    """Rows that no other row dominates; ``distinct`` keeps one of rows equal in all the attributes.

    >>> skyline_of(minimize("price"), maximize("rating")).columns
    ('price', 'rating')
    """
    return Skyline(attributes, distinct)


def k_dominant_of(k: int, *attributes: Attribute) -> "KDominant":
    """Rows that no other row k-dominates: a smaller, stricter skyline for many attributes."""
    return KDominant(attributes, k)


def top_delta_of(delta: int, *attributes: Attribute, exactly: bool = False) -> "TopDelta":
    """The k-dominant skyline for the smallest k that gives more than ``delta`` rows; the factor is a column.

    With ``exactly`` at most ``delta`` rows, those of the smallest factors.
    """
    return TopDelta(attributes, delta, exactly)


def top_k_of(k: int, by: str | Attribute, *within: Attribute, exactly: bool = False) -> "TopK":
    """The k rows of the smallest value of ``by``; write ``by=maximize("rating")`` for the largest.

    Rows that share the k-th value all stay unless ``exactly`` k are wanted. ``diff`` attributes may follow: one
    answer within each of their values.

    >>> top_k_of(10, by="price").attributes
    (Attribute(column='price', direction='min'),)
    """
    first = by if isinstance(by, Attribute) else minimize(by)
    return TopK((first, *within), k, exactly)


@dataclass(frozen=True, repr=False)
class _OfColumns(Preference):
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.attributes
        wrong = [a for a in given if not isinstance(a, Attribute)]
        if wrong:
            raise PenstockError(
                f"{wrong[0]!r} is no attribute; write minimize(...), maximize(...) or diff(...)."
            )
        if not ranked(self.attributes):
            raise PenstockError(
                "A preference needs something to rank by; give a minimize(...) or maximize(...)."
            )
        if len({a.column for a in self.attributes}) < len(self.attributes):
            raise PenstockError("A column is named twice in one preference; name each column once.")

    def select(self, points: Points, classes: Classes = None) -> Rows:
        """The skyline: all that a skyline, a k-dominant or a top-delta answer of a larger set can need."""
        return skyline(points, classes=classes)

    def merge(
        self, left: Points, right: Points, left_classes: Classes = None, right_classes: Classes = None
    ) -> tuple[Rows, Rows]:
        """Cross tests alone: each side is a skyline already."""
        return merge_skylines(left, right, left_classes, right_classes)

    def __repr__(self) -> str:
        options = [f"{k}={v!r}" for k, v in vars(self).items() if k != "attributes"]
        return f"{type(self).__name__}({', '.join([*map(repr, self.attributes), *options])})"


@dataclass(frozen=True, repr=False)
class Skyline(_OfColumns):
    """Rows that no other row dominates."""

    distinct: bool = False

    def answer(self, points: Points, classes: Classes = None) -> tuple[Rows, Extras]:
        """Everything, or the first of equal rows."""
        rows = np.arange(len(points))
        return (first_of_equals(points, rows, classes) if self.distinct else rows), {}


class ByFactor(_OfColumns):
    """Answers that follow from the dominance factors of a window's skyline, however many workers found those."""

    def answer(self, points: Points, classes: Classes = None) -> tuple[Rows, Extras]:
        """The rows of small factors."""
        return self.rated(points, factor.factors_of_skyline(as_points(points), classes), classes)

    @abstractmethod
    def rated(self, points: Points, factors: factor.Factors, classes: Classes = None) -> tuple[Rows, Extras]:
        """The answer, given the factor of each row of the skyline."""


@dataclass(frozen=True, repr=False)
class KDominant(ByFactor):
    """Rows that no other row k-dominates."""

    k: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        width = len(ranked(self.attributes))
        if not 1 <= self.k <= width:
            raise PenstockError(f"k is {self.k} with {width} ranked attributes; choose k from 1 to {width}.")

    def rated(self, points: Points, factors: factor.Factors, classes: Classes = None) -> tuple[Rows, Extras]:
        """Rows whose dominance factor is at most k."""
        return np.flatnonzero((factors > 0) & (factors <= self.k)), {}


@dataclass(frozen=True, repr=False)
class TopDelta(ByFactor):
    """The k-dominant skyline for the smallest k that gives more than delta rows."""

    delta: int = 1
    exactly: bool = field(default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta < 1:
            raise PenstockError(f"delta is {self.delta}; ask for at least 1 row.")

    @property
    def extra_columns(self) -> dict[str, pa.DataType]:
        """The dominance factor of each row."""
        return {"dominance_factor": pa.int32()}

    def rated(self, points: Points, factors: factor.Factors, classes: Classes = None) -> tuple[Rows, Extras]:
        """The rows of small factors, and those factors."""
        if classes is None:
            rows = factor.rows_of_top_delta(points, factors, self.delta, self.exactly)
        else:
            rows = self._within_classes(points, factors, classes)
        return rows, {"dominance_factor": factors[rows]}

    def _within_classes(self, points: Points, factors: factor.Factors, classes: Codes) -> Rows:
        chosen = [
            rows[factor.rows_of_top_delta(points[rows], factors[rows], self.delta, self.exactly)]
            for rows in members(classes)
        ]
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class TopK(_OfColumns):
    """The k rows of the smallest value."""

    k: int = 1
    exactly: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise PenstockError(f"k is {self.k}; ask for at least 1 row.")
        if len(ranked(self.attributes)) != 1:
            raise PenstockError("top_k_of ranks by one column; use skyline_of for several.")

    def select(self, points: Points, classes: Classes = None) -> Rows:
        """The k best of each class; ties stay, since the answer decides about them."""
        return best.top_k(points[:, 0], self.k, classes=classes)

    def merge(
        self, left: Points, right: Points, left_classes: Classes = None, right_classes: Classes = None
    ) -> tuple[Rows, Rows]:
        """The k best of both."""
        both = None
        if left_classes is not None and right_classes is not None:
            both = np.concatenate([left_classes, right_classes])
        kept = self.select(np.vstack([left, right]), both)
        return kept[kept < len(left)], kept[kept >= len(left)] - len(left)

    def answer(self, points: Points, classes: Classes = None) -> tuple[Rows, Extras]:
        """Everything, or the first k of each class."""
        return best.top_k(points[:, 0], self.k, exactly=self.exactly, classes=classes), {}
