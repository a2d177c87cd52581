"""Operators of the flow benchmarks: light ones, and ones that cost a known time a row."""

import time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.jit import jit
from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import running_count, running_sum

#: Rounds of the loop that stands for work: about 30 microseconds a row.
ROUNDS = 18_000

#: Seconds a row that the waiting operators wait.
WAIT = 50e-6

_ROW = {"key": "int64", "value": float}


@operator(keys="key", state={"n": "int64", "s": float}, output={"key": "int64", "n": "int64", "s": float})
def totals(rows: Rows, state: Any, output: Any) -> None:
    """Count and sum of each key that came, once a batch: what an aggregation in update mode gives."""
    running_count(rows.slots, state["n"])
    running_sum(rows.slots, rows["value"], state["s"])
    output.emit(
        {"key": state.keys.column("key"), "n": state["n"], "s": state["s"]}, at=rows.positions[rows.last]
    )


@operator(keys="key", state={"n": "int64"}, output=_ROW)
def keep(rows: Rows, state: Any, output: Any) -> None:
    """Count, and hand every row on."""
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


@operator(keys="key", state={"s": float}, output=_ROW)
def finish(rows: Rows, state: Any, output: Any) -> None:
    """The last row of each key."""
    running_sum(rows.slots, rows["value"], state["s"])
    last = rows.last
    output.emit(rows.table.take(pa.array(last)), at=rows.positions[last])


@operator(keys="key", state={"s": float}, output=_ROW)
def burn(rows: Rows, state: Any, output: Any) -> None:
    """A heavy operator by key; the last row of each key comes out."""
    running_sum(rows.slots, work(rows["value"], ROUNDS), state["s"])
    last = rows.last
    output.emit(rows.table.take(pa.array(last)), at=rows.positions[last])


@operator(keys="key", state={"s": float}, output=_ROW)
def spread_out(rows: Rows, state: Any, output: Any) -> None:
    """A heavy operator by key that hands every row on."""
    running_sum(rows.slots, work(rows["value"], ROUNDS), state["s"])
    output.emit(rows.table)


@operator(stateful=True, state={"s": float}, output={"s": float})
def burn_alone(rows: Rows, state: Any, output: Any) -> None:
    """A heavy operator with one state: it cannot have replicas."""
    sums = running_sum(rows.slots, work(rows["value"], ROUNDS), state["s"])
    output.emit({"s": sums[-1:]}, at=rows.positions[-1:])


@operator(keys="key", state={"n": "int64"}, output=_ROW)
def ask(rows: Rows, state: Any, output: Any) -> None:
    """An operator by key that waits for a service, WAIT seconds a row, and hands every row on."""
    running_count(rows.slots, state["n"])
    time.sleep(WAIT * len(rows))
    output.emit(rows.table)


@operator(stateful=True, state={"n": "int64"}, output={"n": "int64"})
def ask_alone(rows: Rows, state: Any, output: Any) -> None:
    """The same with one state: it cannot have replicas."""
    count = running_count(rows.slots, state["n"])
    time.sleep(WAIT * len(rows))
    output.emit({"n": count[-1:]}, at=rows.positions[-1:])


@jit
def work(values: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """A number that depends on every round, so that the rounds cannot be left out."""
    out = np.empty(len(values))
    for row in range(len(values)):
        x = values[row]
        for _ in range(rounds):
            x = 3.9 * x * (1.0 - x)
        out[row] = x
    return out
