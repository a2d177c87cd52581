"""The queries as flows; each takes the sources it needs, streaming frames on Spark or columns in one process."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock.dataflow import sessions
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock_lab.nexmark import EUROS, GAP, SELECTED, SLIDE, WINDOW


@operator(output={"auction": "int64", "bidder": "int64", "euros": float})
def in_euros(rows: Rows, output: Any) -> None:
    """The price in another currency."""
    output.emit({
        "auction": rows.column("auction"), "bidder": rows.column("bidder"), "euros": rows["price"] * EUROS
    })  # fmt: skip


@operator(output={"auction": "int64", "price": "int64"})
def selected(rows: Rows, output: Any) -> None:
    """Bids on some auctions."""
    chosen = np.flatnonzero(rows["auction"] % SELECTED == 0)
    columns = {name: rows[name][chosen] for name in ("auction", "price")}
    output.emit(columns, at=rows.positions[chosen])


@operator(output={"end": "int64", "auction": "int64", "at": float})
def in_windows(rows: Rows, output: Any) -> None:
    """Every bid once for each window it is in."""
    each = WINDOW // SLIDE
    first = (rows["at"] // SLIDE).astype(np.int64) * SLIDE + SLIDE
    ends = (first[:, None] + SLIDE * np.arange(each)).ravel()
    output.emit(
        {"end": ends, "auction": np.repeat(rows["auction"], each), "at": np.repeat(rows["at"], each)},
        at=np.repeat(rows.positions, each),
    )


@operator(
    keys=["end", "auction"], state={"n": "int64"}, ttl=("at", 2 * WINDOW),
    output={"end": "int64", "auction": "int64", "n": "int64", "at": float},
)  # fmt: skip
def counted(rows: Rows, state: Any, output: Any) -> None:
    """How many bids an auction has in a window, once for each micro-batch that has some."""
    slots, last, found = np.unique(rows.slots[::-1], return_index=True, return_counts=True)
    state["n"][slots] += found
    at = len(rows.slots) - 1 - last  # of several rows of a key the last one
    columns = {
        "end": rows["end"][at],
        "auction": rows["auction"][at],
        "n": state["n"][slots],
        "at": rows["at"][at],
    }
    output.emit(columns, at=rows.positions[at])


def _give_out(key: Mapping[str, Any], state: Any, output: Any) -> None:
    output.emit({"end": key["end"], "auction": state["auction"], "n": state["n"]})
    state.clear()


@operator(
    keys="end", grain="key", time="at", on_timer=_give_out, output={"end": "int64", "auction": "int64", "n": "int64"}
)  # fmt: skip
def hottest(rows: list[dict[str, Any]], state: Any, output: Any) -> None:
    """The auction with the most bids; counts only rise, so the largest seen is that of the window."""
    best = max((row["n"], row["auction"]) for row in rows)
    if best > (state.get("n", 0), state.get("auction", -1)):
        state["n"], state["auction"] = best
    state.timer(float(rows[0]["end"]))


@operator(
    inputs={"came": {"person": "int64", "at": float}, "opened": {"person": "int64", "at": float}},
    keys="person", grain="key", time="at", ttl=("at", 2 * WINDOW), output={"person": "int64", "start": "int64"},
)  # fmt: skip
def newcomers(rows: Mapping[str, list[dict[str, Any]]], state: Any, output: Any) -> None:
    """Persons who came and opened an auction in one window, once."""
    for port, some in rows.items():
        for row in some:
            start = int(row["at"] // WINDOW) * WINDOW
            seen = state.setdefault(start, [])
            if port not in seen:
                seen.append(port)
                if len(seen) == 2:
                    output.emit({"person": row["person"], "start": start})


@operator(output={"person": "int64", "at": float})
def sellers(rows: Rows, output: Any) -> None:
    """Who opened an auction, and when."""
    output.emit({"person": rows.column("person"), "at": rows.column("at")})


def q1(flow: Graph, bids: Any) -> Graph:
    """Bids in another currency."""
    flow.source("bids", bids).through(in_euros).sink("out")
    return flow


def q2(flow: Graph, bids: Any) -> Graph:
    """Bids on some auctions."""
    flow.source("bids", bids).through(selected).sink("out")
    return flow


def q5(flow: Graph, bids: Any) -> Graph:
    """Hot items."""
    flow.source("bids", bids).through(in_windows).through(counted).through(hottest).sink("out")
    return flow


def q8(flow: Graph, persons: Any, auctions: Any) -> Graph:
    """New users."""
    came, opened = flow.source("persons", persons), flow.source("auctions", auctions).through(sellers)
    came.through(newcomers, opened).sink("out")
    return flow


def q11(flow: Graph, bids: Any) -> Graph:
    """Visits."""
    flow.source("bids", bids).through(sessions(keys="bidder", time="at", gap=GAP)).sink("out")
    return flow


#: Query -> how its flow is made, and its sources.
FLOWS: dict[str, tuple[Callable[..., Graph], tuple[str, ...]]] = {
    "q1": (q1, ("bids",)),
    "q2": (q2, ("bids",)),
    "q5": (q5, ("bids",)),
    "q8": (q8, ("persons", "auctions")),
    "q11": (q11, ("bids",)),
}
