"""A Delta table as the place for results: each batch once.

The number of a batch is an application transaction of the table, in the same commit as the rows. Rows that the operators
of a flow put aside are of as many kinds as there are operators, so these are text: one table has one type for a column.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TypeVar

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.spark.runtime.json_rows import json_rows
from penstock.spark.runtime.outbox import Delivery, Destination, Waiting

R = TypeVar("R")


@dataclass(frozen=True)
class DeltaTable(Destination):
    """A Delta table for results, late rows or dead letters; it is made at the first row.

    Dead letters of a flow have the columns ``operator``, ``reason`` and ``row``, the tuple as a JSON object.

    Parameters
    ----------
    path
        Folder or address (``s3://...``) of the table.
    partition_by
        Columns by which a new table is partitioned.
    storage
        Options of the store, as the package ``deltalake`` has them: credentials and the like.

    >>> DeltaTable("/data/answers", partition_by=("region",))
    DeltaTable('/data/answers')
    """

    path: str
    partition_by: Sequence[str] = ()
    storage: Mapping[str, str] = field(default_factory=dict)

    def opened(self, name: str) -> Delivery:
        """A writer under the run's name."""
        return DeltaDelivery(self, f"penstock-{name}", _deltalake())

    def __repr__(self) -> str:
        return f"DeltaTable({str(self.path)!r})"


class DeltaDelivery:
    """Commits of one run to one table."""

    def __init__(self, table: DeltaTable, name: str, library: ModuleType) -> None:
        self._table, self._name, self._library = table, name, library

    def deliver(self, rows: Waiting, number: int) -> None:
        """Append the rows unless the table has the number already."""
        if self.last() < number:
            self._in_words(lambda: self._append(_joined(rows), number))

    def close(self) -> None:
        """Nothing stays open."""

    def last(self) -> int:
        """The number of the last batch in the table."""
        return self._in_words(self._last)

    def _last(self) -> int:
        storage = dict(self._table.storage)
        if not self._library.DeltaTable.is_deltatable(str(self._table.path), storage):
            return -1
        found = self._library.DeltaTable(str(self._table.path), storage_options=storage).transaction_version(
            self._name
        )
        return -1 if found is None else int(found)

    def _in_words(self, step: Callable[[], R]) -> R:
        from deltalake.exceptions import DeltaError

        try:
            return step()
        except (DeltaError, OSError, pa.ArrowException) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise PenstockError(f"The Delta table '{self._table.path}' cannot be used: {reason}.") from None

    def _append(self, rows: pa.Table, number: int) -> None:
        library = self._library
        library.write_deltalake(
            str(self._table.path),
            rows,
            mode="append",
            schema_mode="merge",
            partition_by=list(self._table.partition_by) or None,
            storage_options=dict(self._table.storage),
            commit_properties=library.CommitProperties(
                app_transactions=[library.Transaction(self._name, number)]
            ),
        )


def _joined(rows: Waiting) -> pa.Table:
    tables = [_as_text(operator, table) if operator else table for operator, table in rows.by_operator()]
    return pa.concat_tables(tables, promote_options="default")


def _as_text(operator: str, table: pa.Table) -> pa.Table:
    """Rows that an operator put aside, in columns that fit any row."""
    texts = [row.decode() for row in json_rows(table.drop_columns("reason"))]
    columns = {
        "operator": pa.array([operator] * table.num_rows),
        "reason": table["reason"],
        "row": pa.array(texts, pa.string()),
    }
    return pa.table(columns)


def _deltalake() -> ModuleType:
    try:
        import deltalake
    except ImportError:
        raise PenstockError(
            "Delta tables need the package deltalake: pip install 'penstock[delta]'."
        ) from None
    library: ModuleType = deltalake
    return library
