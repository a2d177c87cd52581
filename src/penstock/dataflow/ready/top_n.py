"""The n best rows of each key so far: a row is given out when it enters them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError, unknown
from penstock.core.jit import jit
from penstock.dataflow.operators import Names, Operator, Properties, make_spec, names_of

MOST = 1000


def top_n(
    *,
    keys: Names,
    by: str,
    n: int,
    smallest: bool = False,
    rank: str = "rank",
    ttl: tuple[str, float] | None = None,
) -> Operator:
    """Give out each row that is among the ``n`` best of its key when it comes, with its place from 1 on as the column ``rank``.

    The best are the largest by the number column ``by`` (or the smallest); of equal rows the first to come is the better one. A row that enters at
    place r moves those from r on down by one, and the n-th leaves; so the rows given out are all it takes to keep the
    ranking. ``ttl=(column, seconds)`` forgets a key as in any operator.

    >>> import penstock, pyarrow as pa
    >>> from penstock.dataflow import Reference, top_n
    >>> flow = penstock.Flow("best")
    >>> bids = flow.source("bids", {"item": int, "price": float})
    >>> _ = bids.through(top_n(keys="item", by="price", n=2)).sink("best")
    >>> found = Reference(flow).run({"bids": pa.table({"item": [1, 1, 1, 1], "price": [5.0, 7.0, 4.0, 6.0]})})
    >>> [(row["price"], row["rank"]) for row in found["best"].to_pylist()]
    [(5.0, 1), (7.0, 1), (6.0, 2)]
    """
    if not 1 <= n <= MOST:
        raise PenstockError(f"The top n of a key has 1 to {MOST} rows, not {n}.")
    return _TopN(names_of(keys, "keys"), by, n, smallest, rank, ttl)


class _TopN(Operator):
    def __init__(
        self,
        keys: tuple[str, ...],
        by: str,
        n: int,
        smallest: bool,
        rank: str,
        ttl: tuple[str, float] | None,
    ) -> None:
        self.by, self.n, self.sign, self.rank = by, n, -1.0 if smallest else 1.0, rank
        # A column of its own for each place: plain numbers are loaded and kept without a Python call a key.
        state = {"rows": int, **{f"best_{place}": float for place in range(1, n + 1)}}
        given: Properties = {"keys": keys, "state": state, "output": self._schema, "ttl": ttl}
        self.spec = make_spec(self.spec, given)

    @property
    def label(self) -> str:
        return "top_n"

    def _schema(self, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
        (given,) = inputs.values()
        if self.by not in given.names:
            raise unknown("column", self.by, given.names)
        kind = given.field(self.by).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise PenstockError(f"the column '{self.by}' is {kind}, and the best are found among numbers")
        if self.rank in given.names:
            raise PenstockError(f"there is a column '{self.rank}' already; name the place otherwise, rank=")
        return given.append(pa.field(self.rank, pa.int64()))

    def invoke(self, inputs: Any, state: Any, output: Any) -> None:
        values = inputs.column(self.by).cast(pa.float64()).to_numpy() * self.sign
        best = np.column_stack([state[f"best_{place}"] for place in range(1, self.n + 1)])
        kept, places = _entering(inputs.slots, values, best, state["rows"])
        for place in range(self.n):
            state[f"best_{place + 1}"][:] = best[:, place]
        rows = inputs.take(kept)
        output.emit(rows.table.append_column(self.rank, pa.array(places)), at=inputs.positions[kept])


@jit
def _entering(slots: Ints, values: Floats, best: Floats, rows: Ints) -> tuple[Ints, Ints]:
    """The rows that enter the best of their key, and at which place; values that are no numbers do not."""
    kept = np.empty(len(slots), dtype=np.int64)
    places = np.empty(len(slots), dtype=np.int64)
    count, n = 0, best.shape[1]
    for row in range(len(slots)):
        slot, value = slots[row], values[row]
        have = rows[slot]
        place = have
        while place > 0 and value > best[slot, place - 1]:
            place -= 1
        if place >= n or value != value:
            continue
        for at in range(min(have, n - 1), place, -1):
            best[slot, at] = best[slot, at - 1]
        best[slot, place] = value
        rows[slot] = min(have + 1, n)
        kept[count], places[count] = row, place + 1
        count += 1
    return kept[:count].copy(), places[:count].copy()
