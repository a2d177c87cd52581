"""Where operators put what they give out."""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.dataflow.rows import MISFIT, Chunk, Positions, Rows, column_of, joined, misfits

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
        #: Rows given out one by one: their values in the order of the port's columns.
        self._singles: dict[str, list[Any]] = {port: [] for port in schemas}
        #: From which row on they are of which call, with its position: (first row, position, call), by port.
        self._calls: dict[str, list[tuple[int, Any, Any]]] = {port: [] for port in schemas}
        self._values: dict[str, Callable[[Any], Any]] = {p: _values(s) for p, s in schemas.items()}

    def emit(self, rows: Any, port: str | None = None, at: Any = None) -> None:
        """Give out rows on a port (the first one unless named).

        Grain "key": one row as a mapping that has every column of the port. Grain "table": an Arrow table or a
        mapping of columns, and in ``at`` the positions of the input rows that caused them (``rows.positions[...]``, or
        the :class:`Rows` themselves); may be left out where one row is given out for each row taken in. Values must
        fit the declared types exactly; columns that the port does not have are left out.
        """
        if self._single:  # a call of its own for every row: no detours here
            name = self._first if port is None else port
            try:
                self._singles[name].append(self._values[name](rows))
            except KeyError as missing:
                self._port(port)
                raise BadOutput(
                    f"Operator '{self._operator}' gave out a row without the column {missing} of port '{name}': "
                    f"{str(dict(rows))[:SHOWN]}."
                ) from None
            return
        name = self._port(port)
        table, causes = self._table(rows, name, at)
        self._chunks.append((name, Chunk(table, causes)))

    # The runtime's side.

    def expect(self, at: Any, single: bool, call: Any = 0) -> None:
        """Say what causes what is given out next (positions, or one position), in which grain it comes, from which call."""
        self._at, self._single = at, single
        if single:
            for port, singles in self._singles.items():
                calls = self._calls[port]
                if calls and calls[-1][0] == len(singles):
                    calls[-1] = (len(singles), at, call)  # the call before gave out nothing here
                else:
                    calls.append((len(singles), at, call))

    def mark(self) -> int:
        """How much has been given out as tables."""
        return len(self._chunks)

    def back_to(self, mark: int) -> None:
        """Forget the tables given out since."""
        del self._chunks[mark:]

    def forget(self, calls: Any) -> None:
        """Forget the rows that some calls gave out."""
        for port, singles in self._singles.items():
            kept: list[Any] = []
            marks: list[tuple[int, Any, Any]] = []
            for (first, at, call), end in self._spans(port):
                if call not in calls:
                    marks.append((len(kept), at, call))
                    kept += singles[first:end]
            self._singles[port], self._calls[port] = kept, marks

    def settle(self) -> None:
        """Make columns of the rows given out one by one; raises, with the calls to blame, where some do not fit."""
        made = {port: self._columns(port) for port, singles in self._singles.items() if singles}
        for port, chunk in made.items():
            self._chunks.append((port, chunk))
        for port in self._singles:
            self._singles[port], self._calls[port] = [], []

    def close(self) -> dict[str, Chunk]:
        """All that was given out, by port in order of position; nothing can be given out any more."""
        self._open = self._single = False
        by_port: dict[str, list[Chunk]] = {}
        for name, chunk in self._chunks:
            by_port.setdefault(name, []).append(chunk)
        return {name: joined(chunks) for name, chunks in by_port.items()}

    def _spans(self, port: str) -> Iterator[tuple[tuple[int, Any, Any], int]]:
        """The calls that gave out rows on a port, each with where its rows end."""
        calls = self._calls[port]
        return zip(calls, [*(c[0] for c in calls[1:]), len(self._singles[port])], strict=True)

    def _columns(self, port: str) -> Chunk:
        schema, rows = self._schemas[port], self._singles[port]
        columns = (
            dict(zip(schema.names, zip(*rows, strict=True), strict=True))
            if len(schema) > 1
            else dict.fromkeys(schema.names, rows)
        )
        firsts = np.array([first for first, _, _ in self._calls[port]])

        def cause(row: int) -> Any:
            return self._calls[port][int(np.searchsorted(firsts, row, side="right")) - 1][2]

        table = self._typed(columns, port, cause)
        at = np.array([at for _, at, _ in self._calls[port]], dtype=np.int64)
        return Chunk(table, np.repeat(at, np.diff(np.append(firsts, len(rows))), axis=0))

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
