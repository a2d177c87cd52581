"""Micro-batches of a program, one after another, each committed exactly once.

A *program* turns (its committed state, a micro-batch) into (new state, output files). Spark replays a batch with the same
id and the same rows until its own log has it, and a batch whose manifest exists already is not run again.
"""

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from penstock.core.controller import Controller
from penstock.core.errors import PenstockError
from penstock.core.journal import Journal
from penstock.spark.actuators.executor_status import task_slots
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.engine import BatchRows, Effort, Engine, JobsEngine, ResidentEngine, with_retries
from penstock.spark.runtime.engine_choice import RESERVED, EngineChoice, taken_slots
from penstock.spark.runtime.manifest import Manifest
from penstock.spark.runtime.milestones import reached
from penstock.spark.runtime.program import Batch, BatchResult, Program
from penstock.spark.runtime.python_source import Span
from penstock.spark.runtime.worker_room import LOOK, Room

log = logging.getLogger(__name__)

P = TypeVar("P", bound=Program)

#: Runs of one application look for slots and take them one after another, or two would take the same.
_TAKING_SLOTS = threading.Lock()


class Batches(Generic[P]):
    """What was committed last, and what it takes to commit the next batch."""

    def __init__(
        self,
        program: P,
        checkpoint: Checkpoint,
        spark: SparkSession,
        journal: Journal,
        controller: Controller[Any],
        owns_journal: bool = True,
        room: Room | None = None,
    ) -> None:
        self._spark = spark
        self._room = room or Room()
        #: The run's journal: every micro-batch, every decision.
        self.journal = journal
        self._owns_journal = owns_journal
        #: Records each batch and lets a policy change the run.
        self.controller = controller
        self._program = program
        self._checkpoint = checkpoint
        self._latest = checkpoint.recover(program.outputs.by_role)
        if checkpoint.mended:
            journal.warning(0.0, "checkpoint", checkpoint.mended)
            log.warning(checkpoint.mended)
        self._resident: ResidentEngine | None = None
        self._choice = EngineChoice("jobs", 0, "not started")
        self._progress: Mapping[str, Any] = {}
        self._working = threading.RLock()
        self._launched, self._ended = threading.Event(), threading.Event()
        self._last_batch = self._measured = self._looked = time.monotonic()
        self._recovered()

    def _recovered(self) -> None:
        """What was committed by a run before has been read: a kind of run may have to do something about it."""

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

    @property
    def progress(self) -> dict[str, Any]:
        """Figures of the last committed micro-batch."""
        return dict(self._progress)

    def _engine(self, spark: SparkSession) -> Engine:
        """Who carries out the stages."""
        return JobsEngine(spark) if self._resident is None else self._resident

    def _process(self, rows: BatchRows, batch_id: int, spark: SparkSession, span: Span | None = None) -> None:
        with self._working:
            self._finish_dropped()  # a crash may have come before
            self._commit(rows, batch_id, spark, span)
            self._finish_dropped()
            self._last_batch = time.monotonic()

    def _finish_dropped(self) -> None:
        """Once the batch of a dropped version is committed, do what it left at once, and make visible what waits.

        The dropped version may have been committed with both already; sent with a later batch, under a number that the
        receiver does not know, it would be there twice.
        """
        dropped = self._checkpoint.dropped
        if dropped is not None and self._latest is not None and self._latest.batch >= dropped.batch:
            self._settle()
            self._checkpoint.flush()
            self._checkpoint.through_again()

    def _commit(self, rows: BatchRows, batch_id: int, spark: SparkSession, span: Span | None) -> None:
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

        def attempt() -> tuple[Batch, BatchResult]:
            prefix = _prefix(batch_id)
            batch = Batch(batch_id, rows, self._engine(spark), spark, before, folder, prefix, started)
            return batch, self._program.run_batch(batch)

        batch, outcome = with_retries(attempt, notify=self._warn)
        reached("state-written", batch_id)
        manifest = Manifest(batch_id, outcome.state, list(outcome.files), list(outcome.outputs))
        if span is not None:
            manifest = replace(manifest, start=span.start, offset=span.end)
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
        if self._resident is not None:  # workers start in the time until the next batch, not beside this one
            with _TAKING_SLOTS:
                self._resize(self._resident)

    def _resize(self, resident: ResidentEngine) -> None:
        """Have the workers that the program wants, as far as they find a slot beside what others have taken by now."""
        workers, wanted, now = resident.workers, self._program.workers_wanted, time.monotonic()
        grows = wanted > workers.planned
        if grows or now - self._looked >= LOOK:
            self._looked = now
            slots, taken = task_slots(self._spark), taken_slots(self._spark, own=workers.launched)
            # A policy is told of less room only where it wanted more: tasks of others may be there for a moment.
            if grows or taken < self._room.taken:
                self._room.leave(min(taken, max(RESERVED, slots - workers.planned)))
            if grows:
                wanted = int(min(wanted, max(workers.planned, slots - taken)))
        resident.resize(wanted)

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

    def _warn(self, text: str) -> None:
        log.warning(text)
        self.controller.warn("workers", text)


def _prefix(batch: int) -> str:
    """What the names of all files of one attempt at a batch begin with."""
    return f"{batch:012d}-{uuid.uuid4().hex[:6]}"
