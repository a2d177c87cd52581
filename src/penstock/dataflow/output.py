"""Where operators put what they give out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Ints
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


class RowOutput:
    """The values of the rows in the order of the port's columns; calls with their positions and where their rows begin."""

    def __init__(self, schema: pa.Schema) -> None:
        self.names: list[str] = schema.names
        self.rows: list[Any] = []
        #: Takes the values out of a row: one value, or several as a tuple.
        self.values: Callable[[Any], Any] = itemgetter(*schema.names) if schema.names else _nothing
        self.add = self.rows.append
        self.count = self.rows.__len__
        self._firsts: list[int] = []
        self._places: Any = []
        self._calls: list[Any] = []

    def begin(self, place: Any, call: Any) -> None:
        """What comes now is of this call, at this position."""
        self._firsts.append(len(self.rows))
        self._places.append(place)
        self._calls.append(call)

    def ended(self, places: Positions, calls: Sequence[Any], ends: Sequence[int]) -> None:
        """Note all calls, made one after another: where the rows begin that the first gave out, and where those of each end."""
        self._firsts, self._places, self._calls = list(ends[:-1]), places, list(calls)

    def forget(self, calls: Collection[Any]) -> None:
        """Forget the rows of some calls."""
        kept: list[Any] = []
        firsts, left = [], [at for at, call in enumerate(self._calls) if call not in calls]
        ends = [*self._firsts[1:], len(self.rows)]
        for at in left:
            firsts.append(len(kept))
            kept += self.rows[self._firsts[at] : ends[at]]
        self.rows[:] = kept
        self._firsts, self._places, self._calls = (
            firsts,
            [self._places[at] for at in left],
            [self._calls[at] for at in left],
        )

    def columns(self) -> dict[str, Sequence[Any]]:
        """The rows by column."""
        if len(self.names) == 1:
            return {self.names[0]: self.rows}
        return dict(zip(self.names, zip(*self.rows, strict=True), strict=True))

    def positions(self) -> Ints:
        """The position of each row: that of its call."""
        counts = np.diff(np.array([*self._firsts, len(self.rows)]))
        places = np.asarray(self._places, dtype=np.int64)
        return places if len(places) == len(self.rows) and counts.all() else np.repeat(places, counts, axis=0)

    def call_of(self, row: int) -> Any:
        """The call that gave out a row."""
        return self._calls[int(np.searchsorted(self._firsts, row, side="right")) - 1]

    def clear(self) -> None:
        """Forget all of it."""
        self.rows.clear()
        self._firsts, self._places, self._calls = [], [], []


def _nothing(_row: Any) -> tuple[()]:
    return ()


class Output:
    """Takes the rows an operator gives out, port by port."""

    def __init__(self, operator: str, schemas: Mapping[str, pa.Schema]) -> None:
        self._operator = operator
        self._schemas = schemas
        self._first = next(iter(schemas), "")
        self._open = True
        self._chunks: list[tuple[str, Chunk]] = []
        self._at: Any = None
        #: Whether rows come one by one, and those that came.
        self._single = False
        self.by_row = {port: RowOutput(schema) for port, schema in schemas.items()}
        self._taking: dict[str | None, RowOutput] = {port: rows for port, rows in self.by_row.items()}  # noqa: C416 - keys of another type
        if schemas:
            self._taking[None] = self.by_row[self._first]

    def emit(self, rows: Any, port: str | None = None, at: Any = None) -> None:
        """Give out rows on a port (the first one unless named).

        Grain "key": one row as a mapping that has every column of the port. Grain "table": an Arrow table or a
        mapping of columns, and in ``at`` the positions of the input rows that caused them (``rows.positions[...]``, or
        the :class:`Rows` themselves); may be left out where one row is given out for each row taken in. Values must
        fit the declared types exactly; columns that the port does not have are left out.
        """
        self._emit(rows, port, at)

    def _emit(self, rows: Any, port: str | None = None, at: Any = None) -> None:
        if self._single:
            try:
                taken = self._taking[port]
                taken.add(taken.values(rows))
            except KeyError as missing:
                raise BadOutput(
                    f"Operator '{self._operator}' gave out a row without the column {missing} of port '{self._port(port)}': "
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
        self.__dict__.pop("emit", None)
        if single:
            for rows in self.by_row.values():
                rows.begin(at, call)

    def expect_rows(self) -> None:
        """Rows come one by one; whoever makes the calls notes with :attr:`by_row` which gave out which."""
        self._at, self._single = None, True
        if len(self.by_row) == 1:
            self.__dict__["emit"] = self._first_port_only()

    def _first_port_only(self) -> Callable[..., None]:
        """:meth:`emit` for rows that come one by one where there is one port: what is called most often of all."""
        first = self.by_row[self._first]
        add, values, usual = first.add, first.values, self._emit

        def emit(rows: Any, port: str | None = None, at: Any = None) -> None:
            if port is not None:
                usual(rows, port, at)
                return
            try:
                add(values(rows))
            except KeyError:
                usual(rows)

        return emit

    def mark(self) -> int:
        """How much has been given out as tables."""
        return len(self._chunks)

    def back_to(self, mark: int) -> None:
        """Forget the tables given out since."""
        del self._chunks[mark:]

    def forget(self, calls: Collection[Any]) -> None:
        """Forget the rows that some calls gave out."""
        for rows in self.by_row.values():
            rows.forget(calls)

    def settle(self) -> None:
        """Make columns of the rows given out one by one; raises, with the calls to blame, where some do not fit."""
        given = {port: rows for port, rows in self.by_row.items() if rows.rows}
        made = {p: Chunk(self._typed(r.columns(), p, r.call_of), r.positions()) for p, r in given.items()}
        self._chunks += made.items()
        for rows in self.by_row.values():
            rows.clear()

    def close(self) -> dict[str, Chunk]:
        """All that was given out, by port in order of position; nothing can be given out any more."""
        self._open = self._single = False
        self.__dict__.pop("emit", None)
        by_port: dict[str, list[Chunk]] = {}
        for name, chunk in self._chunks:
            by_port.setdefault(name, []).append(chunk)
        return {name: joined(chunks) for name, chunks in by_port.items()}

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
