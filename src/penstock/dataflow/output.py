"""Where operators put what they give out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.dataflow.rows import Chunk, Positions, Rows, joined


class Output:
    """Takes the rows an operator gives out, port by port."""

    def __init__(self, operator: str, schemas: Mapping[str, pa.Schema]) -> None:
        self._operator = operator
        self._schemas = schemas
        self._first = next(iter(schemas), "")
        self._open = True
        self._chunks: list[tuple[str, Chunk]] = []
        self._singles: list[tuple[str, dict[str, Any], Positions]] = []
        self._at: Positions | None = None

    def emit(self, rows: Any, port: str | None = None, at: Any = None) -> None:
        """Give out rows on a port (the first one unless named).

        Grain "key": one row as a mapping. Grain "table": an Arrow table or a mapping of columns, and in ``at`` the
        positions of the input rows that caused them (``rows.positions[...]``, or the :class:`Rows` themselves); may be
        left out where one row is given out for each row taken in.
        """
        name = self._port(port)
        if self._single:
            self._singles.append((name, dict(rows), self._at))  # type: ignore[arg-type]  # set before each call
            return
        table = self._table(rows, name)
        positions = self._positions(table, at)
        self._chunks.append((name, Chunk(table, positions)))

    # The runtime's side.

    _single = False

    def expect(self, at: Positions | None, single: bool) -> None:
        """Say what rows cause what is given out next, and in which grain it comes."""
        self._at, self._single = at, single

    def mark(self) -> tuple[int, int]:
        """How much has been given out."""
        return len(self._chunks), len(self._singles)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was given out since."""
        del self._chunks[mark[0] :], self._singles[mark[1] :]

    def close(self) -> dict[str, Chunk]:
        """All that was given out, by port in order of position; nothing can be given out any more."""
        self._open = False
        by_port: dict[str, list[Chunk]] = {}
        for name, chunk in self._chunks:
            by_port.setdefault(name, []).append(chunk)
        for name in self._schemas:
            single = [(row, at) for port, row, at in self._singles if port == name]
            if single:
                by_port.setdefault(name, []).append(self._listed(name, single))
        return {name: joined(chunks) for name, chunks in by_port.items()}

    def _listed(self, port: str, single: list[tuple[dict[str, Any], Positions]]) -> Chunk:
        try:
            table = pa.Table.from_pylist([row for row, _ in single], schema=self._schemas[port])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise PenstockError(
                f"Operator '{self._operator}' gave out rows that do not fit port '{port}': {error}."
            ) from None
        return Chunk(table, np.stack([at for _, at in single]))

    def _port(self, port: str | None) -> str:
        name = self._first if port is None else port
        if not self._open:
            raise PenstockError(
                f"Operator '{self._operator}' gave out rows on port '{name}' after its call was over; give them out before it returns."
            )
        if name not in self._schemas:
            if not self._schemas:
                raise PenstockError(
                    f"Operator '{self._operator}' gave out rows but has no output port; declare output=."
                )
            raise PenstockError(f"Operator '{self._operator}': {unknown('output port', name, self._schemas)}")
        return name

    def _table(self, rows: Any, port: str) -> pa.Table:
        schema = self._schemas[port]
        given = rows.table if isinstance(rows, Rows) else rows
        columns = given if isinstance(given, Mapping) else {n: given.column(n) for n in given.schema.names}
        missing = [n for n in schema.names if n not in columns]
        if missing:
            raise PenstockError(
                f"Operator '{self._operator}' gave out rows without the column '{missing[0]}' of port '{port}'; it declared {', '.join(schema.names)}."
            )
        try:
            return pa.table([_array(columns[f.name], f.type) for f in schema], schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
            raise PenstockError(
                f"Operator '{self._operator}' gave out rows that do not fit port '{port}': {error}."
            ) from None

    def _positions(self, table: pa.Table, at: Any) -> Positions:
        positions = at.positions if isinstance(at, Rows) else self._at if at is None else np.asarray(at)
        if positions is None or len(positions) != table.num_rows:
            raise PenstockError(
                f"Operator '{self._operator}' gave out {table.num_rows} rows without telling which rows caused them; "
                "pass at=rows.positions[...] with one entry a row."
            )
        return positions


def _array(values: Any, kind: pa.DataType) -> Any:
    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values if values.type == kind else values.cast(kind)
    return pa.array(values, kind)
