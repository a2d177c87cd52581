"""A run of a program: launched, by Spark's ``foreachBatch`` or by a loop of its own, watched, settled, ended."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.careful_journal import in_words
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.page.live import serve_page
from penstock.spark.controlled import Controlled
from penstock.spark.metrics_endpoint import MetricsEndpoint
from penstock.spark.runtime import spark_log
from penstock.spark.runtime.batches import Batches, P
from penstock.spark.runtime.engine import BatchRows, ResidentEngine
from penstock.spark.runtime.engine_choice import chosen_engine
from penstock.spark.runtime.first_offset import kept_first, known_first
from penstock.spark.runtime.own_loop import Begin, OwnLoop
from penstock.spark.runtime.parquet_files import ParquetFiles, count_input_rows, parquet_files_of
from penstock.spark.runtime.planned_end import kept_end
from penstock.spark.runtime.policy_target import PolicyTarget
from penstock.spark.runtime.python_source import PythonSource, Span, python_source_of
from penstock.spark.runtime.source_away import SourceAwayError, told_by_source
from penstock.spark.runtime.spark_log import light_logs
from penstock.spark.runtime.spark_loop import SparkLoop
from penstock.spark.runtime.starting import Start, hand_on_store_settings
from penstock.spark.runtime.workers import spark_workers

log = logging.getLogger(__name__)

#: Seconds without a batch after which what was left for the next one is done.
IDLE = 2.0


class MicroBatchRun(Controlled, Batches[P]):
    """A running program: what ``start`` gives back."""

    _error: BaseException | None = None
    _loop: OwnLoop | SparkLoop | None = None
    #: The files of the stream, where the workers read them themselves.
    _files: ParquetFiles | None = None
    _prepared = False
    _stopping = False
    _over = False

    def _serve(self, how: Start) -> None:
        """Serve the run's metrics for Prometheus and its page, where addresses are given."""
        if how.metrics is not None:
            aim = PolicyTarget.of(self.controller.policy)
            seconds = None if aim is None else aim.seconds
            self._endpoint = MetricsEndpoint(how.metrics, how.guards or Guards(), seconds)
            self.controller.observed.add(self._endpoint.observed)
            self.controller.stepped.add(self._endpoint.decided)
        if how.page is not None:
            try:
                self._page = serve_page(how.page, self.controller)
            except BaseException:
                if self._endpoint is not None:
                    self._endpoint.close()
                raise

    def launch(self, frame: DataFrame, how: Start) -> None:
        """Start batches; what was opened for the run is closed where that fails."""
        self._serve(how)
        try:
            if self._checkpoint.in_store or any(f.in_store for f in self._program.outputs.by_role.values()):
                hand_on_store_settings(self._spark)
            workers = self._program.workers_wanted
            self._choice = chosen_engine(how.engine, workers, self._spark)
            self._room.engine(self._choice)
            source = self._python_source(frame)
            self._resident = self._residents(how, workers)
            if source is not None:
                self._loop = self._own_loop(source, how)
                self._loop.start()
            else:
                self._files = None if self._resident is None else parquet_files_of(frame)
                self._loop = SparkLoop(self._started(frame, how))
                self._launched.set()
            self.controller.start()
            threading.Thread(target=self._settle_when_idle, name="penstock-idle", daemon=True).start()
            self._checkpoint.held_by(self._end_if_over)
        except BaseException as error:
            self._error = error
            self._end()
            raise

    def _python_source(self, frame: DataFrame) -> PythonSource | None:
        """The Python data source that the run reads itself; None where Spark has to deliver."""
        before = known_first(self._checkpoint.folder) if self._latest is None else self._latest.offset
        # Spark's log has the offsets then, perhaps of a first batch that was never committed.
        begun = self._latest is not None or spark_log.has_planned(self._checkpoint.spark_folder, 0)
        begun_by_spark = begun and before is None
        own = self._checkpoint.in_store  # where Spark cannot keep its logs
        if (not self._choice.resident and before is None and not own) or begun_by_spark:
            return None
        source = python_source_of(frame)
        if source is None and own:
            raise PenstockError(
                f"The checkpoint '{self._checkpoint.folder}' is in an object store and Spark reads this stream itself, with "
                "logs that need a folder; read it by a Python data source without anything in between (such as format "
                "'penstock-kafka'), or name a checkpoint folder on a mounted file system (the output may be in the store)."
            )
        if source is None and before is not None:
            raise PenstockError(
                f"The checkpoint '{self._checkpoint.folder}' is of a run that read its source itself; start it with "
                "the same source, unchanged, or name a new checkpoint folder."
            )
        return source

    def _residents(self, how: Start, wanted: int) -> ResidentEngine | None:
        """Resident workers, where they are chosen."""
        choice = self._choice
        text = f"The run uses engine {choice.engine}: {choice.reason}."
        if how.engine == "resident" and not choice.resident:
            self._warn(text)
        log.info(text)
        if not choice.resident:
            return None
        workers = spark_workers(self._spark, how.name or "run", self._warn)
        return ResidentEngine(workers, min(wanted, choice.most_workers))

    def _own_loop(self, source: PythonSource, how: Start) -> OwnLoop:
        if self._resident is not None:
            self._resident.workers.keep(source.reader)
        first = partial(kept_first, self._checkpoint.folder, source.first)
        begin = Begin.of(self._latest, self._checkpoint.dropped, first)

        def process(rows: BatchRows, number: int, span: Span) -> float | None:
            with self._noting():
                self._process(rows, number, self._spark, span)
            return self.progress.get("rows")

        loop = partial(OwnLoop, source, process, begin, how.between, how.available_now, self._warn)
        if getattr(self._program.outputs, "function", None) is None:
            return loop()
        return loop(keep=partial(kept_end, self._checkpoint.folder))  # rows are seen before the commit

    def _started(self, frame: DataFrame, how: Start) -> StreamingQuery:
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
        with light_logs(frame.sparkSession, self._checkpoint.spark_folder):
            return now.start()

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._noting():
            self._run(frame, batch_id)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep what fails a batch, unless it is a stop, which cancels the jobs of the batch at hand."""
        try:
            yield
        except SourceAwayError:
            raise  # the batch is tried again
        except PySparkException as error:
            # Where tasks of Spark's read, what the source said stands somewhere in Spark's report.
            said = told_by_source(error) or error
            again = isinstance(said, SourceAwayError) and isinstance(self._loop, OwnLoop)
            if not again and not self._stopping:
                self._error = said
            raise said from None
        except BaseException as error:
            if not self._stopping:
                self._error = error
            raise

    def _run(self, frame: DataFrame, batch_id: int) -> None:
        """Take a micro-batch of Structured Streaming's."""
        if not self._prepared:
            # Adaptive execution runs each stage as a job of its own, to find a number of partitions that is ours to
            # choose. The session of a query is a copy, so nobody else is concerned.
            frame.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
            self._prepared = True
        self._process(self._rows(frame), batch_id, frame.sparkSession)

    def _rows(self, frame: DataFrame) -> BatchRows:
        """The rows of a micro-batch: read by the workers where they can, by Spark elsewhere."""
        if self._files is not None and self._resident is not None:
            found = self._files.rows(frame, self._resident.workers.planned)
            self._launched.wait()
            if found is not None and count_input_rows(self.query, found[1]):
                return found[0]
        return BatchRows(frame=frame)

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle."""
        loop = self._started_loop
        if isinstance(loop, OwnLoop):
            raise PenstockError("This run reads its source itself; there is no query of Spark's.")
        return loop.query

    @property
    def is_active(self) -> bool:
        """Whether the query still runs."""
        return self._started_loop.active

    def stop(self) -> None:
        """End after the current micro-batch; what is committed stays, a later start goes on from there."""
        self._stopping = True
        self._started_loop.stop()
        self._end()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends (or ``timeout`` seconds); raise what stopped it, if anything did.

        Gives True if it has ended.
        """
        loop = self._started_loop
        if not loop.wait(timeout):
            return False
        self._end()
        error = self._error or (None if self._stopping else loop.error)
        if error is not None:
            raise error
        return True

    @property
    def _started_loop(self) -> OwnLoop | SparkLoop:
        if self._loop is None:
            raise PenstockError("The query has not been started.")
        return self._loop

    def _end_if_over(self) -> None:
        """Let go of everything if the query has ended and nobody has asked yet."""
        loop = self._started_loop
        # Spark may say so a moment before who waits for it has heard.
        if not loop.active or (isinstance(loop, SparkLoop) and not loop.query.isActive):
            self._end()

    def _flush(self) -> None:
        """Make visible what waits for later batches; where that fails it goes on waiting, for the next start."""
        try:
            self._checkpoint.flush()
        except Exception as error:  # noqa: BLE001 - the run ends all the same
            self._warn(f"Results that wait could not be made visible: {in_words(error)}")

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
        if not self._over:  # within the lock that batches are made in
            self._over = True
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
