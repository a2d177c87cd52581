"""The plain answer over a static DataFrame: local results, merged in a tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.core.errors import PenstockError
from penstock.preference.preference import Preference
from penstock.spark.query.pane_stage import GroupedPreference
from penstock.spark.query.static_kinds import arrow_of
from penstock.spark.query.stream_query import schema_of_frame


def answer_of(preference: Preference, frame: Any) -> Any:
    """The preferred rows of a table, with all their columns; rows with nulls or NaN where ranked are left out."""
    local = arrow_of(frame)
    if local is not None:
        table, back = local
        result = _checked(preference, table.schema)
        answer = Answer(GroupedPreference(preference))(iter(table.to_batches()))
        return back(pa.Table.from_batches(answer, result) if table.num_rows else result.empty_table())
    if frame.isStreaming:
        raise PenstockError("of() needs a static DataFrame; use PreferenceQuery(...).start() for a stream.")
    result = from_arrow_schema(_checked(preference, schema_of_frame(frame)))
    # Two levels: every input partition reduces itself, each core joins some of those, one task joins the rest.
    local_rows = frame.mapInArrow(LocalSelect(GroupedPreference(preference)), frame.schema)
    joined = local_rows.repartition(frame.sparkSession.sparkContext.defaultParallelism)
    joined = joined.mapInArrow(LocalSelect(GroupedPreference(preference)), frame.schema)
    return joined.repartition(1).mapInArrow(Answer(GroupedPreference(preference)), result)


def _checked(preference: Preference, schema: pa.Schema) -> pa.Schema:
    """The columns of the answer, or one sentence on why there is none."""
    preference.check_schema(schema)
    taken = [name for name in preference.extra_columns if name in schema.names]
    if taken:
        raise PenstockError(f"The input has a column '{taken[0]}', which the result adds; rename it first.")
    extras = [pa.field(name, kind) for name, kind in preference.extra_columns.items()]
    return pa.schema([*schema, *extras])


@dataclass(frozen=True)
class LocalSelect:
    """Reduce a partition to its partial result."""

    grouped: GroupedPreference

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Select batch by batch, merging as they come, so that a large partition needs little memory."""
        yield from _folded(self.grouped, batches).to_batches()


@dataclass(frozen=True)
class Answer:
    """The final rows from all that is left."""

    grouped: GroupedPreference

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join and answer."""
        table = _folded(self.grouped, batches)
        if not table.num_columns:
            return
        preference = self.grouped.preference
        kept, extras = preference.answer(preference.points(table), self.grouped.classes(table))
        rows = table.take(pa.array(kept))
        for name, kind in preference.extra_columns.items():
            rows = rows.append_column(name, pa.array(extras[name], kind))
        yield from rows.to_batches()


def _folded(grouped: GroupedPreference, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    result: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        bad, _ = grouped.preference.bad_rows(table)
        if len(bad):
            good = np.setdiff1d(np.arange(table.num_rows, dtype=np.int64), bad)
            table = table.take(pa.array(good))
        chosen = grouped.select(table)
        result = chosen if result is None else grouped.merge(result, chosen)
    return pa.table({}) if result is None else result.combine_chunks()
