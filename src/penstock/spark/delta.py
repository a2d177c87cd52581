"""A Delta table as the place for results: each batch once.

The number of a batch is an application transaction of the table, in the same commit as the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.spark.runtime.outbox import Delivery, Destination, Waiting


@dataclass(frozen=True)
class DeltaTable(Destination):
    """A Delta table for results, late rows or dead letters; it is made at the first row.

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
        from deltalake.exceptions import DeltaError

        try:
            if self._last() < number:
                self._append(pa.concat_tables(rows.tables(), promote_options="default"), number)
        except (DeltaError, OSError) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise PenstockError(
                f"The Delta table '{self._table.path}' cannot be written to: {reason}."
            ) from None

    def close(self) -> None:
        """Nothing stays open."""

    def _last(self) -> int:
        storage = dict(self._table.storage)
        if not self._library.DeltaTable.is_deltatable(str(self._table.path), storage):
            return -1
        found = self._library.DeltaTable(str(self._table.path), storage_options=storage).transaction_version(
            self._name
        )
        return -1 if found is None else int(found)

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


def _deltalake() -> ModuleType:
    try:
        import deltalake
    except ImportError:
        raise PenstockError(
            "Delta tables need the package deltalake: pip install 'penstock[delta]'."
        ) from None
    library: ModuleType = deltalake
    return library
