"""Aggregates by group as tables: what the pane stage folds, the window stage combines and the writer gives out.

A table of partial results is sorted by the code of the group: ``__code``, the group columns, and for each aggregate the
number of its values and the columns of its partial result.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.aggregates.aggregate import Aggregate
from penstock.core.arrays import Ints, objects
from penstock.core.errors import PenstockError, unknown
from penstock.preference.group_codes import group_codes

CODE = "__code"


@dataclass(frozen=True)
class GroupedAggregates:
    """The aggregates by the names of their results, the group columns, the schema of the input."""

    aggregates: Mapping[str, Aggregate]
    by: tuple[str, ...]
    schema: pa.Schema

    @cached_property
    def results(self) -> list[pa.Field]:
        """The columns of the results; raises where a column cannot be aggregated so."""
        return [pa.field(name, self._result(name, one)) for name, one in self.aggregates.items()]

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of partial results."""
        fields = [pa.field(CODE, pa.int64()), *(self.schema.field(name) for name in self.by)]
        for name, one in self.aggregates.items():
            fields.append(pa.field(f"{name}.rows", pa.int64()))
            fields += [
                pa.field(f"{name}.{part}", self._kept(one, kind)) for part, kind in one.partials.items()
            ]
        return pa.schema(fields)

    def lifted(self, rows: pa.RecordBatch, panes: Ints) -> tuple[pa.Table, Ints]:
        """The partial results of rows, by pane and group, and the pane of each."""
        codes = group_codes(rows, self.by)
        order = _by_pane_and_code(panes, codes)
        panes, codes = panes[order], codes[order]
        starts = _starts((panes[1:] != panes[:-1]) | (codes[1:] != codes[:-1]), len(codes))
        first = pa.array(order[starts])
        columns: list[Any] = [codes[starts], *(rows.column(name).take(first) for name in self.by)]
        for one in self.aggregates.values():
            columns += self._lifted(one, rows, order, starts)
        return self._table(columns), panes[starts]

    def select(self, table: pa.Table) -> pa.Table:
        """Partial results of several messages as one a group."""
        codes = table.column(CODE).to_numpy()
        if len(codes) < 2 or bool((codes[1:] > codes[:-1]).all()):
            return table.combine_chunks()
        order = np.argsort(codes, kind="stable")  # sorted runs, which a stable sort only has to merge
        codes = codes[order]
        starts = _starts(codes[1:] != codes[:-1], len(codes))
        first = pa.array(order[starts])
        columns: list[Any] = [codes[starts], *(table.column(name).take(first) for name in self.by)]
        for name, one in self.aggregates.items():
            rows = table.column(f"{name}.rows").to_numpy()[order]
            partials = {part: _array(table.column(f"{name}.{part}"))[order] for part in one.partials}
            made = one.reduced(partials, rows, starts)
            columns += [np.add.reduceat(rows, starts), *(made[part] for part in one.partials)]
        return self._table(columns)

    def merge(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The partial results of two tables."""
        return self.select(pa.concat_tables([left, right]))

    def combined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The partial results of any number of tables."""
        return self.select(pa.concat_tables(tables)) if tables else self.partial_schema.empty_table()

    def lowered(self, table: pa.Table) -> list[Any]:
        """Group columns and results, ready to be given out."""
        columns: list[Any] = [table.column(name) for name in self.by]
        for (name, one), field in zip(self.aggregates.items(), self.results, strict=True):
            rows = table.column(f"{name}.rows").to_numpy()
            partials = {part: _array(table.column(f"{name}.{part}")) for part in one.partials}
            columns.append(_result(one.lower(partials, rows), rows, field.type, one))
        return columns

    def warm(self) -> None:
        """Nothing to compile."""

    def _lifted(self, one: Aggregate, rows: pa.RecordBatch, order: Ints, starts: Ints) -> list[Any]:
        present = np.ones(len(order), dtype=np.int64)
        values = np.zeros(len(order), dtype=np.int64)
        if one.column is not None:
            column = rows.column(one.column)
            values = one.values(column.drop_null() if column.null_count else column)
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                scattered = np.zeros(len(order), dtype=values.dtype)
                scattered[valid] = values
                values, present = scattered, valid[order].astype(np.int64)
            values = values[order]
        made = one.lifted(values, present, starts)
        return [np.add.reduceat(present, starts), *(made[part] for part in one.partials)]

    def _table(self, columns: Sequence[Any]) -> pa.Table:
        arrays = []
        for column, field in zip(columns, self.partial_schema, strict=True):
            made = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
            arrays.append(made if made.type == field.type else made.cast(field.type, safe=False))
        return pa.Table.from_arrays(arrays, schema=self.partial_schema).combine_chunks()

    def _result(self, name: str, one: Aggregate) -> pa.DataType:
        if one.column is not None and one.column not in self.schema.names:
            raise unknown(f"column of the aggregate '{name}'", one.column, self.schema.names)
        kind = None if one.column is None else self.schema.field(one.column).type
        try:
            return one.result_type(kind)
        except PenstockError as error:
            raise PenstockError(f"The aggregate '{name}' cannot be made: {error}.") from None

    def _kept(self, one: Aggregate, declared: pa.DataType) -> pa.DataType:
        """The type in which a partial result is kept: whole numbers and times stay whole."""
        kind = None if one.column is None else self.schema.field(one.column).type
        if declared != pa.float64() or kind is None or one.result_type(kind) == pa.float64():
            return declared
        if pa.types.is_temporal(kind):
            return pa.int64()
        return pa.int64() if pa.types.is_signed_integer(kind) else one.result_type(kind)


def _by_pane_and_code(panes: Ints, codes: Ints) -> Ints:
    """The rows by pane, then by code: panes of a chunk are few, which a radix sort of small numbers is quick with."""
    low = int(panes.min()) if len(panes) else 0
    if len(panes) and int(panes.max()) - low < 2**16:
        order = np.argsort((panes - low).astype(np.uint16), kind="stable")
    else:
        order = np.argsort(panes, kind="stable")
    sorted_panes = panes[order]
    edges = np.flatnonzero(np.r_[True, sorted_panes[1:] != sorted_panes[:-1], True]) if len(panes) else [0]
    if len(edges) > 256:
        return np.lexsort((codes, panes))
    for begin, end in itertools.pairwise(edges):
        here = order[begin:end]
        order[begin:end] = here[np.argsort(codes[here])]
    return order


def _starts(changes: NDArray[np.bool_], size: int) -> Ints:
    if not size:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.r_[True, changes])


def _array(column: Any) -> Any:
    """A column as numpy; binary as objects."""
    return objects(column.to_pylist()) if pa.types.is_binary(column.type) else column.to_numpy()


def _result(values: Any, rows: Ints, kind: pa.DataType, one: Aggregate) -> Any:
    """Results in their type; null where no row had a value."""
    if isinstance(values, list):
        return pa.array(values, kind)
    made = np.asarray(values)
    empty = rows == 0
    array = pa.array(made, mask=empty if one.null_without_rows and empty.any() else None)
    if pa.types.is_temporal(kind) and array.type != kind:
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return array if array.type == kind else array.cast(kind, safe=False)
