"""Which run of a query an event tells of: Spark tells a start at once and an end through a queue, so they may cross."""

import uuid

from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent

from penstock.spark.attach.query_listener import Watcher

QUERY, FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)


def begin(watcher: Watcher, run: uuid.UUID) -> None:
    watcher.onQueryStarted(QueryStartedEvent(QUERY, run, "q", "", set()))


def end(watcher: Watcher, run: uuid.UUID, error: str | None = None) -> None:
    watcher.onQueryTerminated(QueryTerminatedEvent(QUERY, run, error, None))


def watcher() -> Watcher:
    return Watcher(None, lambda id_, name: True)


def test_a_restart_is_seen_whichever_event_comes_first():
    for crossed in (False, True):
        watch = watcher()
        begin(watch, FIRST)
        for event in (begin, end) if crossed else (end, begin):
            event(watch, SECOND if event is begin else FIRST)
        seen = watch.queries[str(QUERY)]
        assert (seen.running, seen.restarts, seen.ended) == (True, 1, None)
        end(watch, SECOND, "broken")
        assert (seen.running, seen.ended) == (False, "broken")


def test_a_run_that_is_told_twice_is_one_run():
    """Those that run already are taken over while the listener is being added, which may hear of them too."""
    watch = watcher()
    begin(watch, FIRST)
    begin(watch, FIRST)
    assert watch.queries[str(QUERY)].restarts == 0
