"""Operators by different keys, so that each makes a region of its own: heavy and light ones that hand every row on."""

from typing import Any

from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import running_count, running_sum
from penstock_lab.benches.flow_operators import ROUNDS, work

_ROW = {"a": "int64", "b": "int64", "c": "int64", "value": float}


@operator(keys="a", state={"s": float}, output=_ROW, changes=[])
def heavy_by_a(rows: Rows, state: Any, output: Any) -> None:
    """Work on every row, by the first key."""
    running_sum(rows.slots, work(rows["value"], ROUNDS), state["s"])
    output.emit(rows.table)


@operator(keys="b", state={"s": float}, output=_ROW, changes=[])
def heavy_by_b(rows: Rows, state: Any, output: Any) -> None:
    """Work on every row, by the second key."""
    running_sum(rows.slots, work(rows["value"], ROUNDS), state["s"])
    output.emit(rows.table)


@operator(keys="c", state={"s": float}, output=_ROW, changes=[])
def heavy_by_c(rows: Rows, state: Any, output: Any) -> None:
    """Work on every row, by the third key."""
    running_sum(rows.slots, work(rows["value"], ROUNDS), state["s"])
    output.emit(rows.table)


@operator(keys="a", state={"n": "int64"}, output=_ROW, changes=[])
def light_by_a(rows: Rows, state: Any, output: Any) -> None:
    """Count, by the first key."""
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


@operator(keys="c", state={"n": "int64"}, output=_ROW, changes=[])
def light_by_c(rows: Rows, state: Any, output: Any) -> None:
    """Count, by the third key."""
    running_count(rows.slots, state["n"])
    output.emit(rows.table)
