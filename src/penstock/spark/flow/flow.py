"""``penstock.Flow``: a graph of operators that can be started on Spark."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.core.deprecation import deprecated
from penstock.core.errors import PenstockError
from penstock.core.listeners import Listeners
from penstock.core.row_watch import RowWatch
from penstock.dataflow.explain import explain
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.keys import DEFAULT_GROUPS
from penstock.dataflow.plan import Plan
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.spark.actuators.power import machine_power
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
from penstock.spark.runtime.locations import location, prepare
from penstock.spark.runtime.outbox import Destination
from penstock.spark.runtime.output_places import OutputPlaces, Place
from penstock.spark.runtime.policy_target import PolicyTarget
from penstock.spark.runtime.starting import (
    Start,
    StartOptions,
    open_journal,
    refuse_connect,
    takes_options,
)
from penstock.spark.runtime.worker_room import most_workers, room_for_run
from penstock.spark.versions import arrow_schema


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

    @takes_options
    def start(
        self,
        spark: SparkSession | None = None,
        *,
        output: Place | None = None,
        checkpoint: str | Path,
        replicas: Mapping[str, int] | None = None,
        groups: int = DEFAULT_GROUPS,
        rebalance: bool = False,
        cpu: Mapping[str, float] | None = None,
        unobserved: bool = False,
        dead_letter: str | Path | None = None,
        **options: Unpack[StartOptions],
    ) -> FlowRun:
        """Run the flow as one streaming query.

        Parameters
        ----------
        output
            Folder (or ``s3://bucket/path``) with a subfolder for each sink that has no function, topic or table of its own;
            a topic or a table
            (``penstock.spark.KafkaTopic``, ``penstock.spark.DeltaTable``) where that is one sink.
        checkpoint
            Folder of offsets and state, or a place in an object store (``s3://bucket/path``, see docs/stores.md); a later
            start goes on from there.
        policy
            Who adapts replicas, routing and pipelines (an object, or a name such as ``"Organic"``); nobody by default.
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
        unobserved
            Do without profile, journal and control: the yardstick for what being elastic costs.
        dead_letter
            Deprecated: the old name of ``dead_letters``.
        options
            ``trigger``, ``available_now``, ``guards``, ``period``, ``dry_run``, ``engine``, ``journal``, ``metrics``,
            ``page``, ``gather`` are as in :meth:`penstock.PreferenceQuery.start`.
        """
        if dead_letter is not None:
            deprecated("Flow.start(dead_letter=...)", "dead_letters=")
        how = Start(**options)
        how = replace(how, name=how.name or self.name)
        definition = Definition(self)
        frame = self._union()
        if not 1 <= groups <= 65_536:
            raise PenstockError(f"A flow can have 1 to 65536 key groups, not {groups}.")
        first = Plan.first(definition.regions, groups, replicas)
        session = spark or frame.sparkSession
        policy = how.chosen_policy(_surroundings(session, how, cpu is not None))
        power = machine_power(session, policy)
        held = Checkpoint(checkpoint, definition.identity(groups), Gathering.of(how.gather))
        quotas: FlowCpu | None = None
        try:
            quotas = None if cpu is None else FlowCpu(definition.regions, cpu)
            outputs = self._outputs(held, output, how.dead_letters or dead_letter)
            header: dict[str, Any] = {"flow": self.name}
            if (aim := PolicyTarget.of(policy)) is not None:
                header |= aim.header
            book, owned = open_journal(how.journal, held.folder / "journal.jsonl", header)
            listeners = Listeners[Profile](lambda text: controller.warn("listener", text))
            program = FlowProgram(definition, first, outputs, str(held.state_folder), quotas, listeners)
            program.power = power
            if policy is not None and not unobserved:
                program.weigh_keys()
            asks = policy is not None and not how.dry_run and not unobserved
            room = room_for_run(session, asks, lambda text: controller.warn("executors", text))
            plant = FlowPlant(program, room, how.between, how.available_now)
            controller = how.controller(plant, policy, book)
            run = FlowRun(program, held, session, book, controller, owned, room)
            watch = RowWatch(partial(controller.warn, "rows"))
            if not unobserved:
                listeners.add(plant.put)
                listeners.add(lambda profile: watch.batch(profile.rows, dead=profile.dead))
            if rebalance and not unobserved:
                listeners.add(Rebalancer(program))
            run.launch(frame, how)
        except BaseException:
            for taken in (quotas, power):
                if taken is not None:
                    taken.close()
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

    def _outputs(self, held: Checkpoint, output: Place | None, dead_letters: Place | None) -> FlowOutputs:
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
                inside = output if isinstance(output, Destination) else location(output, "output") / sink.name
                sinks[sink.name] = places.made(inside, role)
        dead = places.dead_letters(dead_letters)
        for operator in self.nodes if not dead.in_store else ():
            prepare(dead.place / operator, "dead-letter")
        held.outboxes = tuple(places.outboxes)
        return FlowOutputs(sinks, dead, functions)


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    return arrow_schema(frame.schema, "UTC")


def _surroundings(spark: SparkSession, how: Start, shares: bool) -> Surroundings:
    """What a policy by name has to fit: as many replicas as find a core, or CPU shares where the flow has them."""
    most = most_workers(spark, how.guards)
    kind = PlantKind.SHARES if shares else PlantKind.REPLICAS
    return Surroundings(kind, (1, max(2, most)), period=how.period, cores=most)
