"""How the flow benchmarks run and time things: one session, one scratch folder, Spark's own account of each batch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.apps import finance, wordcount
from penstock.apps.flow_app import pieces
from penstock_lab.results import ResultsPage

#: Batches in which everything is loaded; what the JVM compiles takes longer, so the first half of many is left out.
WARM_UP = 3

#: Symbols of the market: about as many as were listed in the United States in 2013.
SYMBOLS = 8_000


class FlowBench:
    """The runs of one benchmark: a session, a scratch folder, and how a run is timed."""

    def __init__(self, spark: Any, scratch: Path) -> None:
        self.spark, self.scratch, self._runs = spark, scratch, 0

    def files(self, name: str, tables: list[pa.Table], parts: int = 2) -> Any:
        """A stream that plays tables, one a batch, each as so many files: partitions of the input, for all sides alike."""
        from penstock.spark.sources.demo_sources import played

        cut = [piece for table in tables for piece in pieces(table, -(-table.num_rows // parts))]
        return played(self.spark, cut, self.scratch / name, parts)

    def folder(self) -> str:
        """A new folder for a checkpoint."""
        self._runs += 1
        made = self.scratch / f"run-{self._runs}"
        made.mkdir()
        return str(made)

    def flow(self, flow: Any, change: Mapping[str, Any] | None = None, **given: Any) -> dict[str, Any]:
        """Rows a second of a flow."""
        folder = self.folder()
        run = flow.start(
            self.spark, checkpoint=folder + "/checkpoint", output=folder + "/out", available_now=True, **given
        )
        if change:
            run.rescale(**change)
        run.await_termination()
        return timed(run.query) | {"plan": run.plan}

    def query(self, query: Any) -> dict[str, Any]:
        """Rows a second of a query of Spark's own."""
        query.awaitTermination()
        return timed(query)


def timed(query: Any) -> dict[str, Any]:
    """Rows a second over all batches after the warm-up, and the median batch, by Spark's account."""
    batches = [p for p in query.recentProgress if p["numInputRows"] > 0]
    steady = batches[max(min(WARM_UP, len(batches) - 1), len(batches) // 2) :]
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in steady]
    rows = sum(p["numInputRows"] for p in steady)
    return {"rate": rows / sum(seconds), "seconds": float(np.median(seconds)), "batches": len(steady)}


def chain(name: str, stream: Any, *operators: Any) -> Any:
    """A flow of operators one after another."""
    from penstock.spark.flow.flow import Flow

    made = Flow(name)
    at = made.source("rows", stream)
    for operator in operators:
        at = at.through(operator)
    at.sink("out")
    return made


def word_flow(stream: Any) -> Any:
    """Word count on a stream of lines."""
    from penstock.spark.flow.flow import Flow

    flow = Flow("wordcount")
    wordcount.build(flow.source("lines", stream)).sink("counts")
    return flow


def finance_flow(streams: Mapping[str, Any]) -> Any:
    """Finance on streams of trades and quotes."""
    from penstock.spark.flow.flow import Flow

    flow = Flow("finance")
    finance.build(*[flow.source(name, stream, time="ts") for name, stream in streams.items()]).sink(
        "bargains"
    )
    return flow


def goal(report: ResultsPage, text: str, least: float, ratio: float) -> None:
    """Claim a ratio."""
    report.claim(text, f">= {least:g} times", f"{ratio:.2f} times", ratio >= least)
