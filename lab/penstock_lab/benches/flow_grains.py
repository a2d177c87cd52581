"""The two grains of operators in one process: what a call for each key costs, and a call for all, without Spark."""

import time
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dataflow.invoke import Before, invoke
from penstock.dataflow.operators import Context, Operator, operator
from penstock.dataflow.rows import Chunk, Rows
from penstock.dataflow.running_figures import running_count
from penstock.dataflow.wiring import Task
from penstock_lab.judging import at_least
from penstock_lab.results import ResultsPage, Table

_SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.float64())])
_OUT = {"key": "int64", "n": "int64"}
#: Rows a batch.
ROWS = 100_000


@operator(keys="key", state={"n": "int64"}, output=_OUT, grain="key")
def count_rows(rows: list[dict[str, Any]], state: dict[str, Any], output: Any) -> None:
    """Count by key, a row out for each row in, row by row."""
    for row in rows:
        state["n"] += 1
        output.emit({"key": row["key"], "n": state["n"]})


@operator(keys="key", state={"n": "int64"}, output=_OUT)
def count_table(rows: Rows, state: Any, output: Any) -> None:
    """The same, column by column."""
    output.emit({"key": rows.column("key"), "n": running_count(rows.slots, state["n"])})


def compare_grains(report: ResultsPage, quick: bool) -> None:
    """Rows a second of a core, in both grains and in a plain loop."""
    batches, rows = (4 if quick else 12), []
    for keys in (ROWS // 10, ROWS):
        found = {
            "grain key": _invoked(count_rows, keys, batches),
            "grain table": _invoked(count_table, keys, batches),
            "a plain loop over dictionaries": _looped(keys, batches),
        }
        rows += [(name, ROWS // keys, rate) for name, rate in found.items()]
        for name, least in (("grain key", 500_000), ("grain table", 5_000_000)):
            text = f"{name.capitalize()}, one row out for each, {ROWS // keys} rows a key and batch"
            goal = f"at least {least:,} rows/s a core"
            report.claim(text, goal, f"{found[name]:,.0f}", at_least(found[name], least), full=True)
    note = (
        f"A count by key that gives out a row for each row; {ROWS:,} rows a batch, every key has a state already. In one process: keys "
        "to states, calls, checks, output and the layer of state that a batch writes, without reading, routing and writing "
        "files. CPU time, the median of the batches after the first. The plain loop has dictionaries to begin with and makes neither columns nor checks."
    )
    report.tables.append(Table("Rows a second of a core", ("count by", "rows a key", "rows/s"), rows, note))


def _invoked(by: Operator, keys: int, batches: int) -> float:
    context = Context(by.label, {"in": _SCHEMA}, {"out": by.spec.outputs["out"]}, ("key",))
    task, layers, rates = Task(by, context, ("key",)), list[pa.Table](), []
    for number in range(batches + 1):
        chunk = Chunk(_table(number, keys), np.arange(ROWS) + number * ROWS)
        started = time.process_time()
        result = invoke(task, {"in": chunk}, Before(layers))
        rates.append(ROWS / (time.process_time() - started))
        assert result.layer is not None
        layers = [result.layer]
    return float(np.median(rates[1:]))


def _looped(keys: int, batches: int) -> float:
    states: dict[int, dict[str, int]] = {}
    rates = []
    for number in range(batches + 1):
        rows = _table(number, keys).to_pylist()
        started = time.process_time()
        out = []
        for row in rows:
            state = states.get(row["key"])
            if state is None:
                state = states[row["key"]] = {"n": 0}
            state["n"] += 1
            out.append({"key": row["key"], "n": state["n"]})
        rates.append(ROWS / (time.process_time() - started))
    return float(np.median(rates[1:]))


def _table(number: int, keys: int) -> pa.Table:
    """Every key comes equally often, in random order."""
    rng = np.random.default_rng(number)
    return pa.table({"key": rng.permutation(ROWS) % keys, "value": rng.random(ROWS)}, schema=_SCHEMA)
