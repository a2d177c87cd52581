"""What all queries over the windows of a stream have in common: panes, groups, and how they are started."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, Unpack, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.core.belief import DAY, Limits
from penstock.core.deprecation import deprecated
from penstock.core.durations import microseconds
from penstock.core.errors import PenstockError, unknown
from penstock.core.listeners import Listeners
from penstock.core.row_watch import RowWatch
from penstock.disorder import KSlack
from penstock.disorder.strategy import Disorder
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.preference.group_codes import group_codes
from penstock.preference.panes import PaneModel
from penstock.preference.splitting import Splitting, splitting
from penstock.spark.actuators.power import refuse_power
from penstock.spark.query.figures import QueryFigures
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.program import QueryProgram
from penstock.spark.query.query_plant import PANES, WINDOWS, QueryPlant
from penstock.spark.query.routing import check_time_column, check_unit
from penstock.spark.query.run import QueryRun
from penstock.spark.query.static_kinds import arrow_of
from penstock.spark.query.static_windows import StaticQuestion, evaluate, evaluate_table
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.gathering import Gathering
from penstock.spark.runtime.output_places import OutputPlaces, Place
from penstock.spark.runtime.policy_target import PolicyTarget
from penstock.spark.runtime.sinks import SinkFunction
from penstock.spark.runtime.starting import (
    Start,
    StartOptions,
    open_journal,
    refuse_connect,
    takes_options,
)
from penstock.spark.runtime.worker_room import most_workers, room_for_run
from penstock.spark.versions import arrow_schema

#: The kind of table that a query is asked over.
T = TypeVar("T")


class _Usual(int):
    """A number of workers that nobody gave: a run that goes on from a checkpoint keeps its last one instead."""


def _one_for_each_core() -> int:
    return _Usual(os.cpu_count() or 1)


@dataclass(frozen=True)
class StreamQuery(ABC):
    """A query over sliding windows. What it asks stands in a base of its own, whose field comes first."""

    time: str
    window: str
    slide: str | None = None
    by: Sequence[str] | str = ()
    disorder: Disorder = field(default_factory=KSlack)
    ahead: str | None = None
    behind: str | None = None
    splitting: Splitting | str = "AS_PID"
    pane_workers: int = field(default_factory=_one_for_each_core, kw_only=True)
    window_workers: int = field(default_factory=_one_for_each_core, kw_only=True)
    overlap: bool = field(default=False, kw_only=True)
    unit: str = field(default="seconds", kw_only=True)

    #: What runs the query's batches.
    program_type: ClassVar[type[Any]] = QueryProgram

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Raise one sentence if rows of this schema cannot be asked this."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The query in the run's journal, where it has no name."""

    @abstractmethod
    def static(self, schema: pa.Schema) -> StaticQuestion:
        """The same windows over a static table with this schema."""

    def evaluate(self, frame: T) -> T:
        """The same windows over a static table: every window that holds at least one row.

        A Spark DataFrame is evaluated in parallel, a pandas DataFrame or an Arrow table in this process, without Spark; the
        answer is of the same kind. Nothing is late here, and rows that cannot be used (null or NaN where needed) are left
        out.
        """
        local = arrow_of(frame)
        answer: Any
        if local is not None:
            table, back = local
            self.check(table.schema)
            answer = back(evaluate_table(table, self.static(table.schema)))
            return cast(T, answer)
        given: Any = frame
        if given.isStreaming:
            raise PenstockError("evaluate() needs a static DataFrame; use start() for a stream.")
        schema = schema_of_frame(given)
        self.check(schema)
        answer = evaluate(given, self.static(schema))
        return cast(T, answer)

    def check_settings(self) -> None:
        """Raise one sentence where what all queries have is wrong."""
        if not isinstance(self.disorder, Disorder):
            raise PenstockError(
                f"The disorder handling is {self.disorder!r}; write KSlack(), AdaptiveSlack(...) or FixedDelay(...)."
            )
        if min(self.pane_workers, self.window_workers) < 1:
            raise PenstockError(
                "A stage needs at least one worker; give pane_workers and window_workers of 1 or more."
            )
        check_unit(self.unit)
        _ = self.panes, self.strategy, self.limits  # each checks what it is made of

    def check_columns(self, schema: pa.Schema) -> None:
        """Raise one sentence where the time or a group column cannot be used."""
        check_time_column(schema, self.time)
        for name in self.groups:
            if name not in schema.names:
                raise unknown("group column", name, schema.names)
        group_codes(schema.empty_table(), self.groups)  # refuses types that cannot make groups

    @property
    def panes(self) -> PaneModel:
        """Panes and windows in microseconds."""
        return PaneModel.of(self.window, self.slide)

    @property
    def limits(self) -> Limits:
        """Which event times are believed."""
        usual = max(DAY, self.panes.window_us)
        return Limits(
            usual if self.ahead is None else microseconds(self.ahead, "ahead"),
            max(usual, self.disorder.start().slack)
            if self.behind is None
            else microseconds(self.behind, "behind"),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that make groups."""
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)

    @property
    def given_workers(self) -> tuple[int | None, int | None]:
        """The numbers of pane and window workers, where they were given."""
        panes, windows = (
            None if isinstance(n, _Usual) else n for n in (self.pane_workers, self.window_workers)
        )
        return panes, windows

    @property
    def strategy(self) -> Splitting:
        """The pane stage's strategy."""
        return splitting(self.splitting) if isinstance(self.splitting, str) else self.splitting

    def program(
        self,
        schema: pa.Schema,
        outputs: QueryOutputs,
        trigger: float | None,
        listeners: Listeners[QueryFigures],
    ) -> QueryProgram:
        """What runs the query's batches."""
        made: QueryProgram = self.program_type(self, schema, outputs, trigger, listeners)
        return made

    @takes_options
    def start(
        self,
        frame: DataFrame,
        *,
        output: Place | SinkFunction | None = None,
        checkpoint: str | Path,
        late: Place | None = None,
        foreach_batch: Callable[[int, DataFrame], object] | None = None,
        **options: Unpack[StartOptions],
    ) -> QueryRun:
        """Start the query on a streaming DataFrame.

        Parameters
        ----------
        frame
            Any streaming DataFrame.
        output
            A folder (or ``s3://bucket/path``) for the results as Parquet files, in which every window appears once, when its batch is committed;
            a topic or a table (``penstock.spark.KafkaTopic``, ``penstock.spark.DeltaTable``), where it appears once too;
            or a function that is called with (DataFrame of results, batch id), perhaps again after a crash with the
            same rows: it must bear that.
        checkpoint
            Folder for offsets and state, or a place in an object store (``s3://bucket/path``, see docs/stores.md); starting
            again with it goes on where the last run stopped, however it did.
        trigger
            How often a micro-batch starts.
        available_now
            Process what is there and stop. Windows that are not complete stay open for a later start.
        policy, guards
            A scaling policy for the numbers of workers (an object, or a name such as ``"Fuzzy"``), and what keeps it
            from doing harm.
        period
            Seconds between two decisions.
        dry_run
            Decide and record, change nothing.
        engine
            ``"resident"``: workers that live as long as the run, inside Spark tasks that do not end; batches of a tenth of
            a second. ``"jobs"``: every batch runs as Spark jobs. ``"auto"``: resident where the application has free slots
            on one host (see docs/engines.md); ``run.engine`` and ``run.engine_reason`` tell.
        journal
            The run's journal, a path or an object; ``CHECKPOINT/journal.jsonl`` by default.
        metrics
            Address of a Prometheus endpoint, such as ``"127.0.0.1:9108"`` (port 0: a free one).
        page
            Address of the run's live page, such as ``"127.0.0.1:8765"`` (port 0: a free one); ``run.page_address`` is
            what to open.
        gather
            Results of so long a time (``"1 minute"``) become visible together, in one file; by default those of each batch
            at once. They are committed with their batch in any case (see docs/checkpoints.md).
        late
            Folder, topic or table to keep rows that came too late; they are counted in any case.
        dead_letters
            Folder, topic or table for rows that cannot be used, with the reason; ``OUTPUT/_dead_letters`` by default
            (without an output folder ``CHECKPOINT/_dead_letters``).
        name
            The name that Spark knows the query by.
        foreach_batch
            Deprecated: a function ``(batch id, DataFrame)``; give ``output`` a function ``(DataFrame, batch id)``.
        """
        if not frame.isStreaming:
            raise PenstockError(
                "start() needs a streaming DataFrame (spark.readStream...); use evaluate() for a static one."
            )
        how = Start(**options)
        schema = schema_of_frame(frame)
        self.check(schema)
        policy = how.chosen_policy(_surroundings(frame.sparkSession, how, self.overlap))
        refuse_power(policy, "a query")
        outputs = self._outputs(_sink(output, foreach_batch), late, how.dead_letters, checkpoint)
        if self.overlap and outputs.function is not None:
            raise PenstockError(
                "A query with overlap=True gives out windows one batch later, and the last ones without a batch; name an "
                "output folder, a topic or a table, not a function."
            )
        between = microseconds(how.trigger, "trigger") / 1e6
        listeners = Listeners[QueryFigures](lambda text: controller.warn("listener", text))
        program = self.program(schema, outputs, None if how.available_now else between, listeners)
        held = Checkpoint(checkpoint, program.identity, Gathering.of(how.gather))
        held.outboxes = outputs.outboxes
        try:
            header = {"query": how.name or self.label, "window": self.window, "slide": self.slide}
            if (aim := PolicyTarget.of(policy)) is not None:
                header |= aim.header
            book, owned = open_journal(how.journal, held.folder / "journal.jsonl", header)
            asks = policy is not None and not how.dry_run
            room = room_for_run(frame.sparkSession, asks, lambda text: controller.warn("executors", text))
            plant = QueryPlant(program, room)
            listeners.add(plant.put)
            controller = how.controller(plant, policy, book)
            watch = RowWatch(partial(controller.warn, "rows"))
            listeners.add(lambda f: watch.batch(f.rows, f.late, f.bad))
            listeners.add(lambda f: watch.closing(f.windows, f.newest, self.panes.window_us / 1e6, f.slack))
            run = QueryRun(program, held, frame.sparkSession, book, controller, owned, room)
            program.grouped.warm()
            run.launch(frame, how)
        except BaseException:
            held.close()
            raise
        return run

    def _outputs(
        self,
        output: Place | SinkFunction,
        late: Place | None,
        dead_letters: Place | None,
        checkpoint: str | Path,
    ) -> QueryOutputs:
        function = output if callable(output) else None
        places = OutputPlaces(checkpoint, None if callable(output) else output)
        return QueryOutputs(
            results=places.results("output"),
            dead=places.dead_letters(dead_letters),
            late=places.made(late, "late") if late else None,
            function=function,
            outboxes=tuple(places.outboxes),
        )


def _surroundings(spark: SparkSession, how: Start, overlap: bool) -> Surroundings:
    """What a policy by name has to fit: as many workers as find a slot, for each stage where they work in turn."""
    most = most_workers(spark, how.guards)
    return Surroundings(
        PlantKind.PREFERENCE,
        (1, max(2, most) if overlap else most),
        period=how.period,
        stages=(PANES, WINDOWS),
        cores=most,
        in_turn=not overlap,
    )


def _sink(
    output: Place | SinkFunction | None, foreach_batch: Callable[[int, DataFrame], object] | None
) -> Place | SinkFunction:
    if (output is None) == (foreach_batch is None):
        raise PenstockError("Say where the results go: output=FOLDER, TOPIC, TABLE or FUNCTION.")
    if foreach_batch is None:
        assert output is not None
        return output
    deprecated(
        "foreach_batch=f, called with (batch id, DataFrame),", "output=f, called with (DataFrame, batch id)"
    )
    return lambda frame, batch_id: foreach_batch(batch_id, frame)


def schema_of_frame(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as Arrow types."""
    refuse_connect(frame)
    return arrow_schema(frame.schema, str(frame.sparkSession.conf.get("spark.sql.session.timeZone")))
