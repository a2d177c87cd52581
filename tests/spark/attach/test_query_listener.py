"""Which run of a query an event tells of: Spark tells a start at once and an end through a queue, so they may cross."""

import uuid
from types import SimpleNamespace

import pytest
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent

from penstock.spark.attach import query_listener
from penstock.spark.attach.query_listener import KEPT, Watcher

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


def start(watcher: Watcher, number: int, name: str) -> str:
    id_ = uuid.UUID(int=number)
    watcher.onQueryStarted(QueryStartedEvent(id_, uuid.UUID(int=1000 + number), name, "", set()))
    return str(id_)


def finish(watcher: Watcher, number: int) -> None:
    ids = uuid.UUID(int=number), uuid.UUID(int=1000 + number)
    watcher.onQueryTerminated(QueryTerminatedEvent(*ids, None, None))


def test_a_new_query_takes_the_place_of_the_one_that_had_its_name():
    watch = watcher()
    old, other = start(watch, 11, "daily"), start(watch, 12, "other")
    seen = watch.queries.values()
    new = start(watch, 13, "daily")  # the end of the first is not even heard of yet
    assert sorted(watch.queries) == sorted([other, new])
    assert {q.id for q in seen} == {old, other}, "whoever goes through them is not disturbed"
    finish(watch, 11)
    assert watch.queries[new].running


def test_of_queries_that_ended_the_last_ones_are_kept_for_a_restart():
    watch = watcher()
    running = start(watch, 100, "running")
    for number in range(200, 200 + KEPT + 10):
        start(watch, number, f"q{number}")
        finish(watch, number)
    assert len(watch.queries) <= KEPT + 2
    assert running in watch.queries
    assert str(uuid.UUID(int=200 + KEPT + 9)) in watch.queries
    assert str(uuid.UUID(int=200)) not in watch.queries


def test_a_trigger_is_looked_up_for_each_run_and_again_while_spark_does_not_know_the_query(monkeypatch):
    answers = [None, 2.0, 5.0, 7.0]
    monkeypatch.setattr(query_listener, "trigger_interval", lambda session, id_: answers.pop(0))
    watch = watcher()
    begin(watch, FIRST)
    seen = watch.queries[str(QUERY)]
    for expected in (0.0, 2.0, 2.0):
        watch.resolve_triggers()
        assert seen.trigger == expected
    begin(watch, SECOND)
    assert seen.trigger == 2.0  # until it is looked up
    watch.resolve_triggers()
    assert seen.trigger == 5.0
    end(watch, SECOND)
    watch.resolve_triggers()
    assert answers == [7.0], "what has ended is not asked for"


@pytest.mark.parametrize(("error", "told"), [(None, ""), (ValueError("broken"), "broken")])
def test_a_query_that_ended_before_anybody_listened_is_known_to_have_ended(error, told):
    streams = SimpleNamespace(addListener=lambda listener: None, active=[])
    query = SimpleNamespace(id=QUERY, runId=FIRST, name="q", isActive=False, exception=lambda: error)
    watch = Watcher(SimpleNamespace(streams=streams), lambda id_, name: True).begin(query)
    seen = watch.queries[str(QUERY)]
    assert (seen.running, seen.ended) == (False, told)
    begin(watch, SECOND)
    assert seen.running
