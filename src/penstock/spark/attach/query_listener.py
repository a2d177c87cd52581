"""Watches the streaming queries of a session through Spark's own listener."""

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import isnan
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.attach.batch_history import SeenBatch, from_progress

#: Queries that ended and are kept, since they may be started again from their checkpoints.
KEPT = 50


class QueryWatch:
    """What is known of one query: its batches, whether it runs, how it ended."""

    def __init__(self, id_: str, name: str, trigger: float, run: str = "") -> None:
        self.id, self.name, self._run = id_, name, run
        #: Seconds between two batches; 0 where they follow each other at once, or until it is known.
        self.trigger, self.trigger_known = max(trigger, 0.0), trigger >= 0
        self.running = True
        self.ended: str | None = None  # why it failed; empty for a normal end
        self.restarts = 0
        self._lock = threading.Lock()
        self._new: deque[SeenBatch] = deque(maxlen=10_000)
        self._last: SeenBatch | None = None

    def progress(self, report: dict[str, Any]) -> None:
        """Take one progress report."""
        with self._lock:
            batch = from_progress(report, self._last)
            if self._last is not None and batch.number == self._last.number and not batch.rows:
                return  # reports of an idle trigger repeat the batch before
            self._last = batch
            self._new.append(batch)

    @property
    def begun(self) -> bool:
        """Whether the present run has told of a batch."""
        return self._last is not None

    @property
    def shown(self) -> bool:
        """Whether there is anything to tell: a query that ended has no load, and waits for nothing."""
        return self.running or bool(self._new)

    def take(self) -> list[SeenBatch]:
        """Batches that finished since the last call."""
        with self._lock:
            taken = list(self._new)
            self._new.clear()
            return taken

    def unread(self) -> float:
        """Seconds that the jobs of batches ran whose task time was not read yet."""
        with self._lock:
            return sum(b.working for b in self._new if isnan(b.busy))

    def assign(self, busy_a_second: float, slots: float) -> None:
        """Give those batches the task time that was just read, in proportion to how long their jobs ran."""
        with self._lock:
            for i, batch in enumerate(self._new):
                if isnan(batch.busy):
                    self._new[i] = replace(batch, busy=busy_a_second * batch.working, slots=slots)

    def found(self, trigger: float | None) -> None:
        """Its trigger was looked up; None where Spark does not know the query at the moment."""
        if trigger is not None:
            self.trigger, self.trigger_known = trigger, True

    def started(self, run: str) -> None:
        """The same query runs again, from its checkpoint; nothing happens where it is the run that is known."""
        with self._lock:
            if run == self._run:
                return
            self._run, self._last = run, None
            self.restarts += 1
            self.trigger_known = False  # it may be another one now
            self.running, self.ended = True, None

    def terminated(self, run: str, error: str | None) -> None:
        """A run ended, by failure where an error is given.

        Spark tells a start at once and an end through a queue: the end of a run may be heard after the next one's start.
        """
        with self._lock:
            if run == self._run:
                self.running, self.ended = False, error or ""


class Watcher(StreamingQueryListener):
    """Keeps a :class:`QueryWatch` for every query that ``wanted`` accepts, by id."""

    def __init__(self, session: SparkSession, wanted: Callable[[str, str | None], bool]) -> None:
        self._session, self._wanted = session, wanted
        self.queries: dict[str, QueryWatch] = {}
        self.changed = threading.Event()
        self.batch_done = threading.Event()
        #: CPU seconds that the callbacks have cost this process.
        self.cpu = 0.0

    def begin(self, known: StreamingQuery | None = None) -> "Watcher":
        """Listen, and take over the queries that already run; ``known`` is one that may have ended before anybody listened."""
        self._session.streams.addListener(self)
        for query in self._session.streams.active:
            self._started(str(query.id), str(query.runId), query.name)
        if known is not None and str(known.id) not in self.queries:
            run = str(known.runId)
            self._started(str(known.id), run, known.name)
            if not known.isActive:
                self._ended(str(known.id), run, str(known.exception() or ""))
        return self

    def end(self) -> None:
        """Listen no more."""
        self._session.streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """A query begins or begins again."""
        self._started(str(event.id), str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is done."""
        import time

        before = time.thread_time()
        if (query := self.queries.get(str(event.progress.id))) is not None:
            query.progress(json.loads(event.progress.json))
            self.batch_done.set()
        self.cpu += time.thread_time() - before

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to do: batches that do not come tell the same."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query ended."""
        self._ended(str(event.id), str(event.runId), event.exception)

    def _ended(self, id_: str, run: str, error: str | None) -> None:
        if (query := self.queries.get(id_)) is not None:
            query.terminated(run, error)
            self.changed.set()

    def _started(self, id_: str, run: str, name: str | None) -> None:
        if id_ in self.queries:
            self.queries[id_].started(run)
        elif self._wanted(id_, name):
            self._add(QueryWatch(id_, name or f"query-{id_[:8]}", -1.0, run))
        self.changed.set()

    def _add(self, new: QueryWatch) -> None:
        """Watch one more; others read the queries at any time, so they get another dictionary.

        Spark lets no two queries of one name run at the same time: one of the same name has ended, heard of or not.
        """
        others = [q for q in self.queries.values() if q.name != new.name]
        ended = [q for q in others if not q.running]
        gone = {q.id for q in ended[: max(0, len(ended) - KEPT)]}
        self.queries = {q.id: q for q in (*others, new) if q.id not in gone}

    def resolve_triggers(self) -> None:
        """Find the trigger intervals of queries that began; not in the callback, which Spark waits for."""
        for query in self.queries.values():
            if query.running and not query.trigger_known:
                query.found(trigger_interval(self._session, query.id))


def trigger_interval(session: SparkSession, id_: str) -> float | None:
    """Seconds between triggers; 0 where batches follow each other at once or it cannot be told, None where none runs."""
    try:
        query: Any = session.streams.get(id_)
        if query is None:
            return None
        execution = query._jsq.streamingQuery() if hasattr(query._jsq, "streamingQuery") else query._jsq
        return float(execution.trigger().intervalMs()) / 1e3
    except Exception:  # noqa: BLE001 - Spark's inside, which may change: then batches tell the interval
        return 0.0
