"""Counts, sums, means and extremes: one pass over the values, without a Python call a row or a group."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.aggregates.aggregate import Aggregate, Array, Partials
from penstock.core.arrays import Ints
from penstock.core.errors import PenstockError


def count(column: str | None = None) -> Aggregate:
    """How many rows, or how many that have a value in a column."""
    return Count(column)


def sum_of(column: str) -> Aggregate:
    """The sum of a column: whole numbers in 64 bits, others in double precision."""
    return Sum(column)


def mean_of(column: str) -> Aggregate:
    """The mean of a column."""
    return Mean(column)


def min_of(column: str) -> Aggregate:
    """The smallest value of a column of numbers or times."""
    return Extreme(column, "min")


def max_of(column: str) -> Aggregate:
    """The largest value of a column of numbers or times; of numbers that are none (NaN) these."""
    return Extreme(column, "max")


class Count(Aggregate):
    """The number of rows, which is kept of every aggregate."""

    null_without_rows = False

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """Whole numbers."""
        return pa.int64()

    def lift(self, values: Array) -> Partials:
        """Nothing but the rows themselves."""
        return {}

    def combine(self, left: Partials, right: Partials) -> Partials:
        """Nothing."""
        return {}

    def lower(self, partials: Partials, rows: Ints) -> Any:
        """The rows."""
        return rows

    def reduced(self, partials: Partials, rows: Ints, starts: Ints) -> Partials:
        """Nothing."""
        return {}


class Sum(Aggregate):
    """The sum of a column."""

    partials: ClassVar[Mapping[str, pa.DataType]] = {"sum": pa.float64()}

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """That of the column, as wide as there is."""
        if column is None or not (pa.types.is_integer(column) or pa.types.is_floating(column)):
            raise PenstockError(f"a column of type {column} has no sum; name a column of numbers")
        return pa.int64() if pa.types.is_integer(column) else pa.float64()

    def lift(self, values: Array) -> Partials:
        """The values."""
        return {"sum": values.astype(np.int64 if values.dtype.kind in "iu" else np.float64, copy=False)}

    def combine(self, left: Partials, right: Partials) -> Partials:
        """Their sums."""
        return {"sum": left["sum"] + right["sum"]}

    def lower(self, partials: Partials, rows: Ints) -> Any:
        """The sums."""
        return partials["sum"]

    def reduced(self, partials: Partials, rows: Ints, starts: Ints) -> Partials:
        """Sums of runs; what has no rows is zero."""
        values = np.asarray(partials["sum"])
        if (rows == 0).any():
            values = np.where(rows > 0, values, 0)
        return {"sum": np.add.reduceat(values, starts)}


class Mean(Sum):
    """The mean of a column."""

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """Double precision."""
        super().result_type(column)
        return pa.float64()

    def lift(self, values: Array) -> Partials:
        """The values in double precision."""
        return {"sum": values.astype(np.float64, copy=False)}

    def lower(self, partials: Partials, rows: Ints) -> Any:
        """Sums over rows."""
        return partials["sum"] / np.maximum(rows, 1)


class Extreme(Aggregate):
    """The smallest or the largest value."""

    partials: ClassVar[Mapping[str, pa.DataType]] = {"value": pa.float64()}

    def __init__(self, column: str | None, which: str) -> None:
        super().__init__(column)
        self.which = which

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """That of the column."""
        ordered = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_date)
        if column is None or not any(test(column) for test in ordered):
            raise PenstockError(f"a column of type {column} has no smallest and largest value here")
        return column

    def values(self, column: Any) -> Array:
        """Numbers as they are, times as whole numbers."""
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
        return np.asarray(column.to_numpy(zero_copy_only=False))

    @property
    def _better(self) -> np.ufunc:
        # A number that is none counts as larger than all, as in Spark.
        return np.fmin if self.which == "min" else np.maximum

    def lift(self, values: Array) -> Partials:
        """The values."""
        return {"value": values}

    def combine(self, left: Partials, right: Partials) -> Partials:
        """The better of both."""
        return {"value": self._better(left["value"], right["value"])}

    def lower(self, partials: Partials, rows: Ints) -> Any:
        """The values."""
        return partials["value"]

    def reduced(self, partials: Partials, rows: Ints, starts: Ints) -> Partials:
        """The best of runs; what has no rows gives way to all."""
        values = np.asarray(partials["value"])
        if (rows == 0).any():
            values = np.where(rows > 0, values, _worst(values.dtype, self.which))
        return {"value": self._better.reduceat(values, starts)}


def _worst(dtype: Any, which: str) -> Any:
    if dtype.kind == "f":
        return np.nan if which == "min" else -np.inf  # NaN is the largest number
    limits = np.iinfo(dtype)
    return limits.max if which == "min" else limits.min
