"""The micro-batch runtime that preference queries and flows share.

A *program* turns (its committed state, a micro-batch) into (new state, output files). The runtime runs it under
Spark's ``foreachBatch`` and makes each batch count exactly once: Spark replays a batch with the same id and the same
rows until its own log has it, and a batch whose manifest exists already is not run again.
"""

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.careful_journal import in_words
from penstock.core.controller import Controller
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import Journal
from penstock.page.live import serve_page
from penstock.page.server import PageServer
from penstock.spark.metrics_endpoint import MetricsEndpoint
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.engine import BatchRows, Effort, Engine, JobsEngine, ResidentEngine, with_retries
from penstock.spark.runtime.engine_choice import AUTO, EngineChoice, check_engine, chosen_engine
from penstock.spark.runtime.manifest import Manifest
from penstock.spark.runtime.milestones import reached
from penstock.spark.runtime.own_loop import OwnLoop
from penstock.spark.runtime.program import Batch, BatchResult, Program
from penstock.spark.runtime.python_source import Offset, PythonSource, python_source_of
from penstock.spark.runtime.spark_log import light_logs
from penstock.spark.runtime.starting import seconds_between_batches
from penstock.spark.runtime.workers import spark_workers

log = logging.getLogger(__name__)

#: Seconds without a batch after which what was left for the next one is done.
IDLE = 2.0


@dataclass(frozen=True)
class Launch:
    """How batches are made: how often, by which engine, with how many workers at the start."""

    trigger: str = "1 second"
    available_now: bool = False
    name: str | None = None
    engine: str = AUTO
    workers: int = 1

    def __post_init__(self) -> None:
        check_engine(self.engine)

    @property
    def period(self) -> float:
        """Seconds between two batches; nan where they follow each other at once."""
        return seconds_between_batches(self.trigger, self.available_now)


P = TypeVar("P", bound=Program)


class MicroBatchRun(Generic[P]):
    """A running program: what ``start`` gives back."""

    def __init__(
        self,
        program: P,
        checkpoint: Checkpoint,
        spark: SparkSession,
        journal: Journal,
        controller: Controller[Any],
        owns_journal: bool = True,
    ) -> None:
        self._spark = spark
        #: The run's journal: every micro-batch, every decision.
        self.journal = journal
        self._owns_journal = owns_journal
        #: Records each batch and lets a policy change the run.
        self.controller = controller
        self._endpoint: MetricsEndpoint | None = None
        self._page: PageServer | None = None
        self._program = program
        self._checkpoint = checkpoint
        self._latest = checkpoint.recover(program.folders)
        if checkpoint.mended:
            journal.warning(0.0, "checkpoint", checkpoint.mended)
            log.warning(checkpoint.mended)
        self._error: BaseException | None = None
        self._query: StreamingQuery | None = None
        self._resident: ResidentEngine | None = None
        self._choice = EngineChoice("jobs", 0, "not started")
        self._loop: OwnLoop | None = None
        self._progress: Mapping[str, Any] = {}
        self._closed = threading.Lock()
        self._prepared = False
        self._working = threading.RLock()
        self._ended = threading.Event()
        self._last_batch = self._measured = time.monotonic()

    def pause(self) -> None:
        """Go on observing and deciding, but let the policy change nothing until :meth:`resume`."""
        self.controller.pause()

    def resume(self) -> None:
        """Let the policy change things again."""
        self.controller.resume()

    def serve(self, metrics: str | None, page: str | None, guards: Guards | None) -> None:
        """Serve the run's metrics for Prometheus and its page, where addresses are given."""
        if metrics is not None:
            self._endpoint = MetricsEndpoint(metrics, guards or Guards())
            self.controller.observed.add(self._endpoint.observed)
            self.controller.stepped.add(self._endpoint.decided)
        if page is not None:
            try:
                self._page = serve_page(page, self.controller)
            except BaseException:
                if self._endpoint is not None:
                    self._endpoint.close()
                raise

    @property
    def metrics_address(self) -> str:
        """Where the metrics are served; empty where they are not."""
        return self._endpoint.address if self._endpoint is not None else ""

    @property
    def page_address(self) -> str:
        """Where the run's page is served, with the token; empty where it is not."""
        return self._page.address if self._page is not None else ""

    def launch(self, frame: DataFrame, how: Launch) -> None:
        """Start batches; what was opened for the run is closed where that fails."""
        try:
            self._choice = chosen_engine(how.engine, how.workers, self._spark)
            source = self._python_source(frame)
            self._resident = self._residents(how)
            self._loop = None if source is None else self._own_loop(source, how)
            if self._loop is not None:
                self._loop.start()
            else:
                self._query = self._started(frame, how)
            self.controller.start()
            threading.Thread(target=self._settle_when_idle, name="penstock-idle", daemon=True).start()
            self._checkpoint.held_by(self._end_if_over)
        except BaseException as error:
            self._error = error
            self._end()
            raise

    def _python_source(self, frame: DataFrame) -> PythonSource | None:
        """The Python data source that the run reads itself; None where Spark has to deliver."""
        before = None if self._latest is None else self._latest.offset
        begun_by_spark = self._latest is not None and before is None  # whose log has the offsets
        if (not self._choice.resident and before is None) or begun_by_spark:
            return None
        source = python_source_of(frame)
        if source is None and before is not None:
            raise PenstockError(
                f"The checkpoint '{self._checkpoint.folder}' is of a run that read its source itself; start it with "
                "the same source, unchanged, or name a new checkpoint folder."
            )
        return source

    def _residents(self, how: Launch) -> ResidentEngine | None:
        """Resident workers, where they are chosen."""
        choice = self._choice
        text = f"The run uses engine {choice.engine}: {choice.reason}."
        if how.engine == "resident" and not choice.resident:
            self._warn(text)
        log.info(text)
        if not choice.resident:
            return None
        workers = spark_workers(self._spark, how.name or "run", self._warn)
        return ResidentEngine(workers, min(how.workers, choice.most_workers))

    def _own_loop(self, source: PythonSource, how: Launch) -> OwnLoop:
        if self._resident is not None:
            self._resident.workers.keep(source.reader)
        if self._latest is None or self._latest.offset is None:
            start, batch = source.first(), 0
        else:
            start, batch = dict(self._latest.offset), self._latest.batch + 1

        def process(rows: BatchRows, number: int, end: Offset) -> None:
            self._process(rows, number, self._spark, end)

        return OwnLoop(source, process, start, batch, how.period, how.available_now, self._warn)

    def _warn(self, text: str) -> None:
        log.warning(text)
        self.controller.warn("workers", text)

    def _started(self, frame: DataFrame, how: Launch) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(self._on_batch).option(
            "checkpointLocation", str(self._checkpoint.spark_folder)
        )
        if how.name:
            writer = writer.queryName(how.name)
        now = (
            writer.trigger(availableNow=True)
            if how.available_now
            else writer.trigger(processingTime=how.trigger)
        )
        with light_logs(frame.sparkSession):
            return now.start()

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        try:
            self._run(frame, batch_id)
        except BaseException as error:
            self._error = error
            raise

    def _run(self, frame: DataFrame, batch_id: int) -> None:
        """Take a micro-batch of Structured Streaming's."""
        if not self._prepared:
            # Adaptive execution runs each stage as a job of its own, to find a number of partitions that is ours to
            # choose. The session of a query is a copy, so nobody else is concerned.
            frame.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
            self._prepared = True
        self._process(BatchRows(frame=frame), batch_id, frame.sparkSession)

    def _engine(self, spark: SparkSession) -> Engine:
        """Who carries out the stages."""
        return JobsEngine(spark) if self._resident is None else self._resident

    @property
    def engine(self) -> str:
        """Who carries out the stages: ``jobs`` or ``resident``."""
        return "jobs" if self._resident is None else self._resident.name

    @property
    def engine_reason(self) -> str:
        """Why it is this engine."""
        return self._choice.reason

    @property
    def workers(self) -> dict[str, int]:
        """Resident workers planned, requested and observed; empty with engine jobs."""
        if self._resident is None:
            return {}
        workers = self._resident.workers
        return {"planned": workers.planned, "requested": workers.requested, "observed": workers.observed}

    def _process(
        self, rows: BatchRows, batch_id: int, spark: SparkSession, offset: Mapping[str, Any] | None = None
    ) -> None:
        with self._working:
            self._commit(rows, batch_id, spark, offset)
            self._last_batch = time.monotonic()

    def _commit(
        self, rows: BatchRows, batch_id: int, spark: SparkSession, offset: Mapping[str, Any] | None
    ) -> None:
        done = self._latest.batch if self._latest else -1
        if batch_id <= done:
            return  # committed before a crash that Spark's own log did not survive
        if batch_id != done + 1:
            raise PenstockError(
                f"The state in '{self._checkpoint.folder}' ends at batch {done} but Spark goes on with batch {batch_id}: "
                "offsets and state come from different runs; start with a new checkpoint folder."
            )
        started = time.time()
        before = self._latest.state if self._latest else self._program.first_state()
        folder = str(self._checkpoint.state_folder)
        if self._resident is not None:
            self._resident.resize(min(self._program.workers_wanted, self._choice.most_workers))

        def attempt() -> tuple[Batch, BatchResult]:
            prefix = _prefix(batch_id)
            batch = Batch(batch_id, rows, self._engine(spark), spark, before, folder, prefix, started)
            return batch, self._program.run_batch(batch)

        batch, outcome = with_retries(attempt, notify=self._warn)
        reached("state-written", batch_id)
        manifest = Manifest(
            batch_id, outcome.state, list(outcome.files), list(outcome.outputs), offset=offset
        )
        self._checkpoint.commit(manifest)
        self._latest = manifest
        seconds = time.time() - started
        effort = None if self._resident is None else self._resident.take_effort()
        self._progress = {
            **outcome.progress,
            "batch": batch_id,
            "seconds": seconds,
            "engine": self.engine,
            "workers": self.workers,
            **self._shares(effort),
        }
        known_now = self._program.committed(batch, outcome, seconds, effort)
        self._progress = {**self._progress, **known_now}

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle."""
        if self._loop is not None:
            raise PenstockError("This run reads its source itself; there is no query of Spark's.")
        if self._query is None:
            raise PenstockError("The query has not been started.")
        return self._query

    @property
    def progress(self) -> dict[str, Any]:
        """Figures of the last committed micro-batch."""
        return dict(self._progress)

    @property
    def is_active(self) -> bool:
        """Whether the query still runs."""
        return self.query.isActive if self._loop is None else self._loop.active

    def stop(self) -> None:
        """End after the current micro-batch; what is committed stays, a later start goes on from there."""
        if self._loop is not None:
            self._loop.stop()
        else:
            self.query.stop()
        self._end()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends (or ``timeout`` seconds); raise what stopped it, if anything did.

        Gives True if it has ended.
        """
        if self._loop is not None:
            return self._loop_ended(timeout)
        try:
            if timeout is None:
                self.query.awaitTermination()
                ended = True
            else:
                ended = bool(self.query.awaitTermination(timeout))  # type: ignore[arg-type]  # seconds, fractions work
        except StreamingQueryException as error:
            self._end()
            if self._error is not None:
                raise self._error from None
            raise error from None
        if ended:
            self._end()
        return ended

    def _loop_ended(self, timeout: float | None) -> bool:
        assert self._loop is not None
        if not self._loop.wait(timeout):
            return False
        self._error = self._error or self._loop.error
        self._end()
        if self._error is not None:
            raise self._error
        return True

    def _end_if_over(self) -> None:
        """Let go of everything if the query has ended and nobody has asked yet."""
        if not self.is_active:
            self._end()

    def _flush(self) -> None:
        """Make visible what waits for later batches; where that fails it goes on waiting, for the next start."""
        try:
            self._checkpoint.flush()
        except Exception as error:  # noqa: BLE001 - the run ends all the same
            self._warn(f"Results that wait could not be made visible: {in_words(error)}")

    def _shares(self, effort: Effort | None) -> dict[str, Any]:
        """What the resident workers did since the batch before: busy share of each, CPU seconds, bytes exchanged."""
        if effort is None or self._resident is None:
            return {}
        now = time.monotonic()
        period, self._measured = max(now - self._measured, 1e-6), now
        there = {*self._resident.workers.members(), *effort.busy}
        shares = [min(1.0, effort.busy.get(worker, 0.0) / period) for worker in sorted(there)]
        return {"worker_busy": shares, "worker_cpu": effort.cpu, "exchanged": effort.sent}

    def _settle(self) -> BatchResult | None:
        """Do what the last batch left for the next one, and commit that."""
        latest = self._latest
        if latest is None:
            return None
        engine, folder = self._engine(self._spark), str(self._checkpoint.state_folder)

        def attempt() -> BatchResult | None:
            batch = Batch(
                latest.batch,
                BatchRows(),
                engine,
                self._spark,
                latest.state,
                folder,
                _prefix(latest.batch),
                time.time(),
            )
            return self._program.settled(batch)

        outcome = with_retries(attempt, notify=self._warn)
        if outcome is not None:
            manifest = replace(
                latest, state=outcome.state, files=list(outcome.files), outputs=list(outcome.outputs)
            )
            self._checkpoint.commit(manifest)
            self._latest = manifest
            self._progress = {**self._progress, **outcome.progress}
        return outcome

    def _settle_at_the_end(self) -> None:
        if self._error is not None:
            return
        try:
            self._settle()
        except Exception as error:  # noqa: BLE001 - what was left is done at the next start; the run still has to end
            self._error = error
            self._warn(f"What the last batch left was not done ({error}); a later start does it.")

    def _settle_when_idle(self) -> None:
        while not self._ended.wait(IDLE / 4):
            if time.monotonic() - self._last_batch < IDLE or self._error is not None:
                continue
            if self._working.acquire(timeout=0.01):
                try:
                    if not self._ended.is_set():
                        self._settle()
                except Exception as error:  # noqa: BLE001 - shown when the run ends
                    self._error = error
                finally:
                    self._working.release()

    def _end(self) -> None:
        self._ended.set()
        with self._working:
            self._end_once()

    def _end_once(self) -> None:
        if self._closed.acquire(blocking=False):
            self._settle_at_the_end()
            if self._error is None:
                self._flush()
            self.controller.stop()
            if self._resident is not None:
                self._resident.close()
            self._program.close()
            for served in (self._endpoint, self._page):
                if served is not None:
                    served.close()
            if self._owns_journal:
                self.controller.journal.close()
            self._checkpoint.close()


def _prefix(batch: int) -> str:
    """What the names of all files of one attempt at a batch begin with."""
    return f"{batch:012d}-{uuid.uuid4().hex[:6]}"
