"""``penstock.Flow``: a graph of operators that can be started on Spark."""

from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.core.durations import microseconds
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import FileJournal, Journal
from penstock.core.policy import AnyPolicy
from penstock.dataflow.explain import explain
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.keys import DEFAULT_GROUPS
from penstock.dataflow.plan import Plan
from penstock.spark.flow.control import Control
from penstock.spark.flow.cpu import FlowCpu
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.program import FlowProgram
from penstock.spark.flow.run import FlowRun
from penstock.spark.flow.writing import Folders
from penstock.spark.runtime.checkpoint import Checkpoint, local_path, make_folder
from penstock.spark.runtime.microbatch import start


class Flow(Graph):
    """A dataflow: sources, operators and sinks, without a word on parallelism.

    >>> import penstock
    >>> flow = penstock.Flow("words")
    >>> words = flow.source("words", {"word": str})
    """

    def source(self, name: str, schema: Any, frame: Any = None, time: str | None = None) -> Stream:
        """Declare a source: a streaming DataFrame, or a schema for a flow that is only explained or run in one process.

        ``time`` names the column by which rows of several sources are merged within a micro-batch.
        """
        if isinstance(schema, DataFrame):
            return super().source(name, _arrow_schema(schema), schema, time)
        return super().source(name, schema, frame, time)

    def explain(self, plan: Plan | None = None, picture: str | Path | None = None) -> str:
        """Regions, pipelines, replicas and Spark stages as text; also as an SVG picture where a path is given."""
        return explain(self, plan, picture)

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        checkpoint: str | Path,
        output: str | Path | None = None,
        policy: AnyPolicy | None = None,
        guards: Guards | None = None,
        period: float = 2.0,
        journal: Journal | str | Path | None = None,
        trigger: str = "1 second",
        available_now: bool = False,
        replicas: Mapping[str, int] | None = None,
        groups: int = DEFAULT_GROUPS,
        dead_letter: str | Path | None = None,
        dry_run: bool = False,
        rebalance: bool = False,
        cpu: Mapping[str, float] | None = None,
        plain: bool = False,
        name: str | None = None,
    ) -> FlowRun:
        """Run the flow as one streaming query.

        Parameters
        ----------
        checkpoint
            Folder of offsets and state; a later start goes on from there.
        output
            Folder with a subfolder for each sink that is not a function.
        policy, guards, period, dry_run
            Who adapts replicas, routing and pipelines, within which limits, every how many seconds; none by default.
        journal
            Where decisions and reconfigurations are written; ``CHECKPOINT/journal.jsonl`` by default.
        trigger, available_now
            How often a micro-batch starts, or: process what is there and stop.
        replicas
            Replicas to start with, by region; one each by default. A checkpoint's own plan wins.
        rebalance
            Move hot key groups to other replicas when the replicas stay uneven.
        cpu
            The share of one core that each replica of a region may use, by region: a quota in a control group of Linux,
            held wherever the region's tasks land on this host. ``{"count": 0.4}`` is 40 %; ``{}`` makes groups without
            limits, for a policy that sets them.
        plain
            Do without profile, journal and control: the yardstick for what being elastic costs.
        dead_letter
            Folder for tuples that could not be processed; ``CHECKPOINT/dead-letter`` by default.
        """
        definition = Definition(self)
        frame = self._union()
        if not 1 <= groups <= 65_536:
            raise PenstockError(f"A flow can have 1 to 65536 key groups, not {groups}.")
        first = Plan.first(definition.regions, groups, replicas)
        held = Checkpoint(checkpoint, definition.identity(groups))
        quotas: FlowCpu | None = None
        try:
            quotas = None if cpu is None else FlowCpu(definition.regions, cpu)
            folders = self._folders(held, output, dead_letter)
            book = (
                journal
                if isinstance(journal, Journal)
                else FileJournal(journal or held.folder / "journal.jsonl")
            )
            program = FlowProgram(definition, first, folders, str(held.state_folder), quotas)
            run = FlowRun(program, held, spark or frame.sparkSession, book)
            every = nan if available_now else _seconds(trigger)
            run.control = Control(program, book, policy, guards, period, dry_run, rebalance, every)
            if not plain:
                program.listen(run.control)
            start(program, frame, run, trigger=trigger, available_now=available_now, name=name or self.name)
        except BaseException:
            if quotas is not None:
                quotas.close()
            held.close()
            raise
        return run

    def _union(self) -> DataFrame:
        """All sources as one streaming frame: one micro-batch is one consistent cut of all of them."""
        self.check()
        frames = []
        for source in self.sources.values():
            if not isinstance(source.frame, DataFrame):
                raise PenstockError(
                    f"The source '{source.name}' has no streaming DataFrame; give one to flow.source()."
                )
            if not source.frame.isStreaming:
                raise PenstockError(
                    f"The source '{source.name}' is a static DataFrame; give a streaming one (spark.readStream...)."
                )
            frames.append(source.frame)
        if len(frames) == 1:
            return frames[0]
        # Columns side by side, null where they are another source's: Spark copies structs once more on the way to Arrow.
        shaped = [
            frame.select(
                F.lit(at).alias("source"),
                *[
                    (F.col(f"`{field.name}`") if i == at else F.lit(None).cast(field.dataType)).alias(
                        f"c{i}_{n}"
                    )
                    for i, other in enumerate(frames)
                    for n, field in enumerate(other.schema)
                ],
            )
            for at, frame in enumerate(frames)
        ]
        together = shaped[0]
        for other in shaped[1:]:
            together = together.unionAll(other)
        return together

    def _folders(
        self, held: Checkpoint, output: str | Path | None, dead_letter: str | Path | None
    ) -> Folders:
        waiting = held.folder / "penstock" / "handed"
        make_folder(waiting, "checkpoint")
        sinks = {}
        for sink in self.sinks.values():
            if sink.to is not None:
                sinks[sink.name] = (str(waiting), str(waiting))
                continue
            if output is None:
                raise PenstockError(
                    f"The sink '{sink.name}' writes files; name a folder with output=, or give it a function."
                )
            final = Path(local_path(output, "output")) / sink.name
            make_folder(final / "_staging", "output")
            sinks[sink.name] = (str(final / "_staging"), str(final))
        dead = Path(local_path(dead_letter or held.folder / "dead-letter", "dead letter"))
        for operator in self.nodes:
            make_folder(dead / operator, "dead letter")
        make_folder(dead / "_staging", "dead letter")
        return Folders(sinks, (str(dead / "_staging"), str(dead)))


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")


def _seconds(trigger: str) -> float:
    """The time between two batches; nan where they follow each other at once, or where only Spark knows the words."""
    try:
        return microseconds(trigger, "trigger") / 1e6
    except PenstockError:
        return nan
