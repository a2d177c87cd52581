"""Quantiles and distinct counts by sketches of Apache DataSketches: small, mergeable, with known errors."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, ClassVar

import datasketches  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pyarrow as pa

from penstock.aggregates.aggregate import Aggregate, Array, Partials
from penstock.core.arrays import Ints, objects
from penstock.core.errors import PenstockError


def quantile_of(column: str, at: float = 0.5, k: int = 200) -> Aggregate:
    """A quantile of a column of numbers, by a KLL sketch: the rank is right to about 1.65 % with ``k=200``.

    Up to ``k`` values it is exact: the smallest value that at least the share ``at`` of all values does not exceed.
    """
    if not 0 <= at <= 1:
        raise PenstockError(f"A quantile is at a share from 0 to 1, not at {at}.")
    if not 8 <= k <= 65_535:
        raise PenstockError(f"A sketch of quantiles has k from 8 to 65535, not {k}.")
    return Quantile(column, at, k)


def distinct_of(column: str, k: int = 12) -> Aggregate:
    """How many different values a column has, by a HyperLogLog sketch of ``2^k`` places: right to about 1.04 / sqrt(2^k).

    With the usual 4,096 places that is 1.6 %; a few hundred values are counted nearly exactly.
    """
    if not 4 <= k <= 21:
        raise PenstockError(f"A sketch of distinct values has k from 4 to 21, not {k}.")
    return Distinct(column, k)


class Sketch(Aggregate):
    """A partial result is the bytes of a sketch; null where there are no values."""

    partials: ClassVar[Mapping[str, pa.DataType]] = {"sketch": pa.binary()}

    def lift(self, values: Array) -> Partials:
        """A sketch a value; the runtime makes one a run instead."""
        ones = np.ones(len(values), dtype=np.int64)
        return self.lifted(values, ones, np.arange(len(values)))

    def combine(self, left: Partials, right: Partials) -> Partials:
        """Unions of pairs."""
        pairs = zip(left["sketch"], right["sketch"], strict=True)
        return {"sketch": objects([self._union(list(pair)) for pair in pairs])}

    def lifted(self, values: Array, rows: Ints, starts: Ints) -> Partials:
        """One sketch a run of values."""
        ends = np.append(starts[1:], len(values))
        made = []
        for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
            here = values[begin:end][rows[begin:end] > 0]
            made.append(self._sketch(here) if len(here) else None)
        return {"sketch": objects(made)}

    def reduced(self, partials: Partials, rows: Ints, starts: Ints) -> Partials:
        """The union of each run; a run of one stays as it is."""
        sketches, ends = partials["sketch"], np.append(starts[1:], len(rows))
        made = [
            sketches[begin] if end - begin == 1 else self._union(list(sketches[begin:end]))
            for begin, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return {"sketch": objects(made)}

    def lower(self, partials: Partials, rows: Ints) -> Any:
        """What each sketch says."""
        return [None if s is None else self._answer(bytes(s)) for s in partials["sketch"]]

    @abstractmethod
    def _sketch(self, values: Array) -> bytes:
        """A sketch of values."""

    @abstractmethod
    def _union(self, sketches: list[Any]) -> bytes | None:
        """One sketch of several."""

    @abstractmethod
    def _answer(self, sketch: bytes) -> Any:
        """What a sketch says."""


class Quantile(Sketch):
    """A quantile of numbers."""

    def __init__(self, column: str | None, at: float, k: int) -> None:
        super().__init__(column)
        self.at, self.k = at, k

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """Double precision."""
        if column is None or not (pa.types.is_integer(column) or pa.types.is_floating(column)):
            raise PenstockError(f"a column of type {column} has no quantiles; name a column of numbers")
        return pa.float64()

    def _sketch(self, values: Array) -> bytes:
        made = datasketches.kll_doubles_sketch(self.k)
        made.update(np.ascontiguousarray(values, dtype=np.float64))
        return bytes(made.serialize())

    def _union(self, sketches: list[Any]) -> bytes | None:
        some = [s for s in sketches if s is not None]
        if len(some) < 2:
            return some[0] if some else None
        made = datasketches.kll_doubles_sketch.deserialize(bytes(some[0]))
        for other in some[1:]:
            made.merge(datasketches.kll_doubles_sketch.deserialize(bytes(other)))
        return bytes(made.serialize())

    def _answer(self, sketch: bytes) -> Any:
        made = datasketches.kll_doubles_sketch.deserialize(sketch)
        return None if made.is_empty() else made.get_quantile(self.at, True)


_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
#: Stands for the empty text, which the library leaves out: its eight bytes, all 0xFF, are those of no other text.
_EMPTY = -1


def _told(value: str | bytes) -> str | int:
    """What the library is told of a text, or of bytes: those that are one count as it, of others it takes a hash.

    >>> _told("a"), _told(b"a"), _told(b""), type(_told(bytes([255])))
    ('a', 'a', -1, <class 'int'>)
    """
    try:
        return (value.decode() if isinstance(value, bytes) else value) or _EMPTY
    except UnicodeDecodeError as error:
        return int.from_bytes(blake2b(error.object, digest_size=8).digest(), "little", signed=True)


class Distinct(Sketch):
    """The number of different values."""

    def __init__(self, column: str | None, k: int) -> None:
        super().__init__(column)
        self.k = k

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """Whole numbers."""
        if column is None or pa.types.is_nested(column):
            raise PenstockError(
                f"a column of type {column} cannot be told apart; name a column of plain values"
            )
        return pa.int64()

    def values(self, column: Any) -> Array:
        """Numbers and bytes as they are; all else as texts."""
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        if any(test(column.type) for test in _BYTES):
            return objects(column.to_pylist())
        return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False))

    def _sketch(self, values: Array) -> bytes:
        made = datasketches.hll_sketch(self.k, datasketches.tgt_hll_type.HLL_8)
        update: Callable[[Any], None] = made.update
        distinct = set(values.tolist())
        for value in map(_told, distinct) if values.dtype == object else distinct:
            update(value)
        return bytes(made.serialize_compact())

    def _union(self, sketches: list[Any]) -> bytes | None:
        some = [s for s in sketches if s is not None]
        if len(some) < 2:
            return some[0] if some else None
        union = datasketches.hll_union(self.k)
        for one in some:
            union.update(datasketches.hll_sketch.deserialize(bytes(one)))
        return bytes(union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_compact())

    def _answer(self, sketch: bytes) -> Any:
        return round(datasketches.hll_sketch.deserialize(sketch).get_estimate())
