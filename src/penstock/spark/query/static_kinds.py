"""The kinds of tables that people have: Spark DataFrames, pandas DataFrames, Arrow tables; an answer is of the kind asked with."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa

from penstock.core.errors import PenstockError


def arrow_of(data: Any) -> tuple[pa.Table, Callable[[pa.Table], Any]] | None:
    """A pandas or Arrow table as Arrow, and the way back; None for a Spark DataFrame, one sentence for anything else.

    >>> table, back = arrow_of(pd.DataFrame({"a": [1]}))
    >>> type(back(table)).__name__
    'DataFrame'
    """
    if isinstance(data, pd.DataFrame):
        return _micros(pa.Table.from_pandas(data, preserve_index=False)), lambda table: table.to_pandas()
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _micros(data), lambda table: table
    if hasattr(data, "isStreaming"):
        return None
    raise PenstockError(
        f"This takes a Spark DataFrame, a pandas DataFrame or an Arrow table, not {type(data).__name__}."
    )


def _micros(table: pa.Table) -> pa.Table:
    """Timestamps in microseconds, as Spark has them; pandas has nanoseconds."""
    fields = [
        pa.field(f.name, pa.timestamp("us", f.type.tz))
        if pa.types.is_timestamp(f.type) and f.type.unit != "us"
        else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields), safe=False)
