"""Where operators put what they give out."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.dataflow.columns import MISFIT, column_of, misfits
from penstock.dataflow.rows import Chunk, Positions, Rows, joined

#: Characters of a value or a tuple that are shown.
SHOWN = 300


class BadOutput(PenstockError):
    """A row given out does not fit its port: the fault of the rows that caused it."""

    def __init__(self, sentence: str, causes: Mapping[Any, str] | None = None) -> None:
        super().__init__(sentence)
        #: Who gave out what does not fit, with the reason: positions of rows, or numbers of calls; empty if not known.
        self.causes = causes or {}


class Output:
    """Takes the rows an operator gives out, port by port."""

    def __init__(self, operator: str, schemas: Mapping[str, pa.Schema]) -> None:
        self._operator = operator
        self._schemas = schemas
        self._first = next(iter(schemas), "")
        self._open = True
        self._chunks: list[tuple[str, Chunk]] = []
        self._at: Any = None
        self._single = False
        self._call: Any = 0
        #: Rows given out one by one: their values in the order of the port's columns, position, number of the call.
        self._singles: dict[str, list[tuple[Any, Any, Any]]] = {port: [] for port in schemas}
        self._values: dict[str, Callable[[Any], Any]] = {p: _values(s) for p, s in schemas.items()}

    def emit(self, rows: Any, port: str | None = None, at: Any = None) -> None:
        """Give out rows on a port (the first one unless named).

        Grain "key": one row as a mapping that has every column of the port. Grain "table": an Arrow table or a
        mapping of columns, and in ``at`` the positions of the input rows that caused them (``rows.positions[...]``, or
        the :class:`Rows` themselves); may be left out where one row is given out for each row taken in. Values must
        fit the declared types exactly; columns that the port does not have are left out.
        """
        name = self._port(port)
        if self._single:
            try:
                values = self._values[name](rows)
            except KeyError as missing:
                raise BadOutput(
                    f"Operator '{self._operator}' gave out a row without the column {missing} of port '{name}': "
                    f"{str(dict(rows))[:SHOWN]}."
                ) from None
            self._singles[name].append((values, self._at, self._call))
            return
        table, causes = self._table(rows, name, at)
        self._chunks.append((name, Chunk(table, causes)))

    # The runtime's side.

    def expect(self, at: Any, single: bool, call: Any = 0) -> None:
        """Say what causes what is given out next (positions, or one position), in which grain it comes, from which call."""
        self._at, self._single, self._call = at, single, call

    def mark(self) -> int:
        """How much has been given out as tables."""
        return len(self._chunks)

    def back_to(self, mark: int) -> None:
        """Forget the tables given out since."""
        del self._chunks[mark:]

    def forget(self, calls: Any) -> None:
        """Forget the rows that some calls gave out."""
        for port, singles in self._singles.items():
            self._singles[port] = [one for one in singles if one[2] not in calls]

    def settle(self) -> None:
        """Make columns of the rows given out one by one; raises, with the calls to blame, where some do not fit."""
        made = {port: self._columns(port) for port, singles in self._singles.items() if singles}
        for port, chunk in made.items():
            self._chunks.append((port, chunk))
            self._singles[port] = []

    def close(self) -> dict[str, Chunk]:
        """All that was given out, by port in order of position; nothing can be given out any more."""
        self._open = False
        by_port: dict[str, list[Chunk]] = {}
        for name, chunk in self._chunks:
            by_port.setdefault(name, []).append(chunk)
        return {name: joined(chunks) for name, chunks in by_port.items()}

    def _columns(self, port: str) -> Chunk:
        schema, singles = self._schemas[port], self._singles[port]
        rows = [values for values, _, _ in singles]
        columns = (
            dict(zip(schema.names, zip(*rows, strict=True), strict=True))
            if len(schema) > 1
            else dict.fromkeys(schema.names, rows)
        )
        table = self._typed(columns, port, lambda row: singles[row][2])
        return Chunk(table, np.array([at for _, at, _ in singles], dtype=np.int64))

    def _typed(self, columns: Mapping[str, Any], port: str, cause: Callable[[int], Any] | None) -> pa.Table:
        """The columns in their declared types; raises, with what caused the misfits, where there are any."""
        schema = self._schemas[port]
        arrays, bad, first = [], dict[Any, str](), ""
        for field in schema:
            try:
                arrays.append(column_of(columns[field.name], field.type))
            except MISFIT as error:
                values = columns[field.name]
                wrong = {w: self._misfit(_at(values, w), field, port) for w in misfits(values, field.type)}
                first = first or next(iter(wrong.values()), f"{self._field_in_words(field, port)}: {error}.")
                if cause is not None:
                    bad = {**{cause(w): reason for w, reason in wrong.items()}, **bad}
        if first:
            raise BadOutput(first, bad)
        try:
            return pa.table(arrays, schema=schema)
        except MISFIT as error:
            raise PenstockError(
                f"Operator '{self._operator}' gave out columns that do not go together on port '{port}': {error}."
            ) from None

    def _field_in_words(self, field: pa.Field, port: str) -> str:
        return f"Operator '{self._operator}' gave out what does not fit the column '{field.name}' of port '{port}'"

    def _misfit(self, value: Any, field: pa.Field, port: str) -> str:
        return (
            f"Operator '{self._operator}' gave out {str(repr(value))[:SHOWN]} for the column '{field.name}' of port '{port}', "
            f"which is {field.type}; give out what fits exactly, or declare another type."
        )

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

    def _table(self, rows: Any, port: str, at: Any) -> tuple[pa.Table, Positions]:
        schema = self._schemas[port]
        given = rows.table if isinstance(rows, Rows) else rows
        columns = given if isinstance(given, Mapping) else {n: given.column(n) for n in given.schema.names}
        missing = [n for n in schema.names if n not in columns]
        if missing:
            raise PenstockError(
                f"Operator '{self._operator}' gave out rows without the column '{missing[0]}' of port '{port}'; it declared {', '.join(schema.names)}."
            )
        positions = at.positions if isinstance(at, Rows) else self._at if at is None else np.asarray(at)
        cause = None
        if positions is not None and all(len(columns[n]) == len(positions) for n in schema.names):
            cause = _causes(positions)
        table = self._typed(columns, port, cause)
        if positions is None or len(positions) != table.num_rows:
            raise PenstockError(
                f"Operator '{self._operator}' gave out {table.num_rows} rows without telling which rows caused them; "
                "pass at=rows.positions[...] with one entry a row."
            )
        return table, positions


def _values(schema: pa.Schema) -> Callable[[Any], Any]:
    """Takes the values of a port's columns out of a row: one value, or several as a tuple."""
    return itemgetter(*schema.names) if schema.names else lambda _row: ()


def cause_of(position: Any) -> Any:
    """A position as something that can be looked up."""
    return tuple(position.tolist()) if position.ndim else int(position)


def _causes(positions: Positions) -> Callable[[int], Any]:
    return lambda row: cause_of(positions[row])


def _at(values: Any, row: int) -> Any:
    value = values[row]
    return (
        value.as_py()
        if isinstance(value, pa.Scalar)
        else value.item()
        if isinstance(value, np.generic)
        else value
    )
