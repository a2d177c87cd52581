"""``penstock.Flow``: a graph of operators that can be started on Spark."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.core.controller import Controller
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.listeners import Listeners
from penstock.core.names import check_name
from penstock.core.policy import AnyPolicy
from penstock.core.row_watch import RowWatch
from penstock.dataflow.explain import explain
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.keys import DEFAULT_GROUPS
from penstock.dataflow.plan import Plan
from penstock.policies.catalog import policy_named
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.spark.actuators.executor_status import task_slots
from penstock.spark.flow.cpu import FlowCpu
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.flow_plant import FlowPlant
from penstock.spark.flow.profile import Profile
from penstock.spark.flow.program import FlowProgram
from penstock.spark.flow.rebalancer import Rebalancer
from penstock.spark.flow.run import FlowRun
from penstock.spark.flow.task_output import HANDED, FlowOutputs
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.gathering import Gathering
from penstock.spark.runtime.microbatch import Launch
from penstock.spark.runtime.outbox import Destination
from penstock.spark.runtime.output_places import OutputPlaces, Place
from penstock.spark.runtime.paths import make_folder
from penstock.spark.runtime.starting import (
    PERIOD,
    JournalLike,
    check_period,
    deprecated,
    open_journal,
    refuse_connect,
    seconds_between_batches,
)


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
        output: str | Path | Destination | None = None,
        checkpoint: str | Path,
        trigger: str = "1 second",
        available_now: bool = False,
        policy: AnyPolicy | str | None = None,
        guards: Guards | None = None,
        period: float = PERIOD,
        dry_run: bool = False,
        engine: str = "auto",
        journal: JournalLike = None,
        metrics: str | None = None,
        page: str | None = None,
        gather: str | None = None,
        dead_letters: str | Path | Destination | None = None,
        name: str | None = None,
        replicas: Mapping[str, int] | None = None,
        groups: int = DEFAULT_GROUPS,
        rebalance: bool = False,
        cpu: Mapping[str, float] | None = None,
        plain: bool = False,
        dead_letter: str | Path | None = None,
    ) -> FlowRun:
        """Run the flow as one streaming query.

        Parameters
        ----------
        output
            Folder with a subfolder for each sink that has no function, topic or table of its own; a topic or a table
            (``penstock.spark.KafkaTopic``, ``penstock.spark.DeltaTable``) where that is one sink.
        checkpoint
            Folder of offsets and state; a later start goes on from there.
        trigger, available_now
            How often a micro-batch starts, or: process what is there and stop.
        policy, guards
            Who adapts replicas, routing and pipelines (an object, or a name such as ``"Organic"``), within which limits;
            nobody by default.
        period
            Seconds between two decisions.
        dry_run
            Decide and record, change nothing.
        engine
            ``"resident"``: workers that live as long as the run, inside Spark tasks that do not end; batches of a tenth of
            a second. ``"jobs"``: every batch runs as Spark jobs. ``"auto"``: resident where the application has free slots
            on one host (see docs/engines.md); ``run.engine`` and ``run.engine_reason`` tell.
        journal
            Where batches, decisions and reconfigurations are written, a path or an object;
            ``CHECKPOINT/journal.jsonl`` by default.
        metrics
            Address of a Prometheus endpoint, such as ``"127.0.0.1:9108"`` (port 0: a free one).
        page
            Address of the run's live page, such as ``"127.0.0.1:8765"`` (port 0: a free one); ``run.page_address`` is
            what to open.
        gather
            Rows of so long a time (``"1 minute"``) become visible together, in one file a sink; by default those of each
            batch at once. They are committed with their batch in any case (see docs/checkpoints.md).
        dead_letters
            Folder for tuples that could not be processed, with a folder inside for each operator, or a topic or table;
            ``OUTPUT/_dead_letters`` by default (without an output folder ``CHECKPOINT/_dead_letters``).
        name
            The name that Spark knows the query by; the flow's own by default.
        replicas
            Replicas to start with, by region; one each by default. A checkpoint's own plan wins.
        groups
            Key groups: the most replicas a region can have.
        rebalance
            Move hot key groups to other replicas when the replicas stay uneven.
        cpu
            The share of one core that each replica of a region may use, by region: a quota in a control group of Linux,
            held wherever the region's tasks land on this host. ``{"count": 0.4}`` is 40 %; ``{}`` makes groups without
            limits, for a policy that sets them.
        plain
            Do without profile, journal and control: the yardstick for what being elastic costs.
        dead_letter
            Deprecated: the old name of ``dead_letters``.
        """
        if dead_letter is not None:
            deprecated("Flow.start(dead_letter=...)", "dead_letters=")
        definition = Definition(self)
        frame = self._union()
        if not 1 <= groups <= 65_536:
            raise PenstockError(f"A flow can have 1 to 65536 key groups, not {groups}.")
        check_period(period)
        if name is not None:
            check_name(name, "query")
        first = Plan.first(definition.regions, groups, replicas)
        chosen = None if policy is None else policy_named(policy, _surroundings(period, cpu is not None))
        held = Checkpoint(checkpoint, definition.identity(groups), Gathering.of(gather))
        quotas: FlowCpu | None = None
        try:
            quotas = None if cpu is None else FlowCpu(definition.regions, cpu)
            outputs = self._outputs(held, output, dead_letters or dead_letter)
            book, owned = open_journal(journal, held.folder / "journal.jsonl", {"flow": self.name})
            listeners = Listeners[Profile](lambda text: controller.warn("listener", text))
            program = FlowProgram(definition, first, outputs, str(held.state_folder), quotas, listeners)
            session = spark or frame.sparkSession
            plant = FlowPlant(
                program, partial(task_slots, session), seconds_between_batches(trigger, available_now)
            )
            controller = Controller(plant, chosen, guards, book, period=period, dry_run=dry_run)
            run = FlowRun(program, held, session, book, controller, owned)
            watch = RowWatch(partial(controller.warn, "rows"))
            if not plain:
                listeners.add(plant.put)
                listeners.add(lambda profile: watch.batch(profile.rows, dead=profile.dead))
            if rebalance and not plain:
                listeners.add(Rebalancer(program))
            run.serve(metrics, page, guards)
            run.launch(
                frame, Launch(trigger, available_now, name or self.name, engine, program.workers_wanted)
            )
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
            refuse_connect(source.frame)
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

    def _outputs(
        self, held: Checkpoint, output: str | Path | Destination | None, dead_letters: Place | None
    ) -> FlowOutputs:
        handed = OutputFolder.made(held.folder / "penstock" / HANDED, "checkpoint")
        functions = frozenset(sink.name for sink in self.sinks.values() if callable(sink.to))
        files = [s.name for s in self.sinks.values() if s.to is None]
        if isinstance(output, Destination) and len(files) > 1:
            raise PenstockError(
                f"The sinks {', '.join(files)} cannot share one {type(output).__name__}; give each its own: stream.sink(NAME, ...)."
            )
        places = OutputPlaces(held.folder, output)
        sinks = {}
        for sink in self.sinks.values():
            role = f"sink {sink.name}"
            if sink.name in functions:
                sinks[sink.name] = handed
            elif isinstance(sink.to, Destination):
                sinks[sink.name] = places.made(sink.to, role)
            elif output is None:
                raise PenstockError(
                    f"The sink '{sink.name}' writes files; name a folder with output=, or give it a topic, a table or a function."
                )
            else:
                inside = output if isinstance(output, Destination) else Path(output) / sink.name
                sinks[sink.name] = places.made(inside, role)
        dead = places.dead_letters(dead_letters)
        for operator in self.nodes:
            make_folder(Path(dead.path) / operator, "dead-letter")
        held.outboxes = tuple(places.outboxes)
        return FlowOutputs(sinks, dead, functions)


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")


def _surroundings(period: float, shares: bool) -> Surroundings:
    """What a policy by name has to fit: replicas, as many as there are cores, or CPU shares where the flow has them."""
    cores = os.cpu_count() or 1
    kind = PlantKind.SHARES if shares else PlantKind.REPLICAS
    return Surroundings(kind, (1, max(2, cores)), period=period, cores=cores)
