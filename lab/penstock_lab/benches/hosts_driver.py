"""The driver of ``penstock bench hosts``: ``python -m penstock_lab.benches.hosts_driver SPEC.json`` on a host of its own."""

import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

import penstock as ps
from penstock.dataflow import running_count
from penstock.spark import session
from penstock.spark.actuators.executors import Executors
from penstock.spark.runtime.locations import location, read_parquet

#: How long the query waits for late rows; windows up to the newest time without it are due.
SLACK = timedelta(seconds=2)


@ps.operator(keys="key", state={"n": int}, output={"key": int, "n": int})
def count(rows: Any, state: Any, output: Any) -> None:
    """A running count by key."""
    output.emit({"key": rows.column("key"), "n": running_count(rows.slots, state["n"])})


def main(path: str) -> None:
    """Run a query or a flow to the end of its stream, tell each batch, and at the end whether the answers are right."""
    spec = json.loads(Path(path).read_text())
    spark = session(spec["master"], app="penstock bench hosts", config=spec["config"])
    stream = spark.readStream.format("penstock-traffic").options(**spec["stream"]).load()
    whole = spark.read.format("penstock-traffic").options(**spec["stream"]).load()
    places: dict[str, Any] = {"output": f"{spec['base']}/out", "checkpoint": f"{spec['base']}/ck"}
    how: dict[str, Any] = {"trigger": "500 milliseconds", "engine": "resident"}
    rows = whole.count()  # before the run: the first batches are not to be missed
    if spec["kind"] == "query":
        run: Any = _query().start(stream, **places, **how)
    else:
        flow = ps.Flow("counts")
        flow.source("traffic", stream).through(count).sink("counts")
        run = flow.start(spark, **places, **how, replicas={"count": 3})
    changes = _Changes(spark, spec["executors"])
    told = -1
    while run.is_active:
        seen = run.progress
        if seen.get("batch", -1) > told:
            told = seen["batch"]
            hosts = {hello.host for hello in run._resident.workers.members().values()}
            _tell(
                batch=told,
                at=time.time(),
                seconds=seen["seconds"],
                hosts=len(hosts),
                executors=changes.step(told),
            )
            if _rows(run, seen) == rows:
                break
        time.sleep(0.05)
    run.stop()
    _tell(rows=rows, equal=_equal(spec, whole))
    spark.stop()


class _Changes:
    """Executors that go and come at given batches."""

    def __init__(self, spark: Any, wanted: dict[str, int]) -> None:
        self._wanted = {int(batch): count for batch, count in wanted.items()}
        self._executors = Executors(spark, grace=2.0, handover=1.0, warm=())

    def step(self, batch: int) -> int:
        """Ask for what is due by now; how many there are."""
        due = [at for at in self._wanted if at <= batch]
        now = time.time()
        if due:
            self._executors.set_target(self._wanted.pop(min(due)), now)
        else:
            self._executors.advance(now)
        return len(self._executors.seen)


def _query() -> ps.PreferenceQuery:
    return ps.PreferenceQuery(
        ps.skyline_of(*(ps.minimize(f"a{i}") for i in range(4))),
        time="event_time",
        window="1 second",
        slide="200 milliseconds",
        disorder=ps.FixedDelay(f"{SLACK.seconds} seconds"),
        pane_workers=3,
        window_workers=3,
    )


def _rows(run: Any, seen: dict[str, Any]) -> int:
    totals = seen.get("totals")
    return int(totals["rows"] if totals else run.totals.rows)


def _equal(spec: dict[str, Any], whole: Any) -> bool:
    """Whether the output is what one machine would have given for the same stream."""
    folder = location(f"{spec['base']}/out" + ("" if spec["kind"] == "query" else "/counts"))
    made = sorted(tuple(r.values()) for f in folder.glob("*.parquet") for r in read_parquet(f).to_pylist())
    if spec["kind"] == "query":
        answer = sorted(tuple(r.values()) for r in _query().evaluate(whole).toArrow().to_pylist())
        newest = pc.max(whole.select("event_time").toArrow()["event_time"]).as_py()
        return all_due(made, answer, newest - SLACK)
    counts: dict[int, int] = {}
    for row in whole.select("key").toArrow()["key"].to_pylist():
        counts[row] = counts.get(row, 0) + 1
    return made == sorted((key, n + 1) for key, many in counts.items() for n in range(many))


def all_due(made: Sequence[Any], answer: Sequence[Any], due: datetime) -> bool:
    """Whether the rows are those of all windows that end by a moment, and there are some; rows begin with start and end."""
    return bool(made) and list(made) == [row for row in answer if row[1] <= due]


def _tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)  # noqa: T201 - what the benchmark reads


if __name__ == "__main__":
    main(sys.argv[1])
