"""A driver of ``penstock bench kafka``: ``python -m penstock_lab.benches.kafka_driver SPEC.json``; figures as JSON on its last line."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.dataflow import running_count
from penstock.spark import DeltaTable, KafkaTopic, session
from penstock.spark.kafka.client import confluent
from penstock.spark.query.run import QueryRun
from penstock_lab.benches import kafka_by_hand
from penstock_lab.benches.kafka_by_hand import COLUMNS, SCHEMA, WORDS

#: Seconds between two looks whether a run has caught up, and until it is given up; one that cannot is measured all the same.
BETWEEN_LOOKS, LONGEST = 5.0, 60.0


def main(path: str) -> None:
    """Do what a specification says."""
    spec = json.loads(Path(path).read_text())
    by_hand = spec["kind"].endswith("by hand")
    spark = session("local[4]", app="penstock bench kafka", kafka=by_hand)
    query = {
        "skyline": skyline,
        "skyline to Delta": skyline,
        "words": words,
        "each word": words,
        "skyline by hand": kafka_by_hand.skyline,
        "skyline to Delta by hand": kafka_by_hand.skyline_to_delta,
        "words by hand": kafka_by_hand.words,
    }[spec["kind"]](spark, spec)
    figures = _measured(query, spec, _taken_by_spark if by_hand else _taken)
    query.stop()
    sys.stdout.write("\n" + json.dumps(figures) + "\n")
    sys.stdout.flush()
    spark.stop()


def skyline(spark: Any, spec: Mapping[str, Any]) -> Any:
    """The skyline of every second, to a topic or to a Delta table."""
    query = ps.PreferenceQuery(
        ps.skyline_of(*map(ps.minimize, COLUMNS)),
        time="at",
        window="1 second",
        disorder=ps.FixedDelay("500 milliseconds"),
    )
    table = spec["kind"] == "skyline to Delta"
    return query.start(
        _source(spark, spec, SCHEMA),
        output=DeltaTable(f"{spec['work']}/table") if table else _topic(spec, "answers"),
        late=_topic(spec, "late"),
        dead_letters=_topic(spec, "dead"),
        checkpoint=f"{spec['work']}/ck",
        engine="resident",
        trigger=spec["trigger"],
        available_now=spec.get("drain", False),
    )


_COUNT: dict[str, Any] = {"word": str, "n": "int64", "at": "timestamp"}


@ps.operator(keys="word", state={"n": "int64"}, output=_COUNT)
def counted_each(rows: Any, state: Any, output: Any) -> None:
    """The count of a word each time it comes: the same however rows are cut into batches."""
    count = running_count(rows.slots, state["n"])
    output.emit({"word": rows.column("word"), "n": count, "at": rows.column("at")})


@ps.operator(keys="word", state={"n": "int64"}, output=_COUNT)
def counted(rows: Any, state: Any, output: Any) -> None:
    """The counts of the words of a batch, each once, as Spark's update mode has it."""
    count = running_count(rows.slots, state["n"])
    last = np.sort(rows.last[rows.last >= 0])
    found = {"word": rows.column("word").take(last), "n": count[last], "at": rows.column("at").take(last)}
    output.emit(found, at=rows.positions[last])


def words(spark: Any, spec: Mapping[str, Any]) -> Any:
    """Running counts of words, to a topic and to a Delta table; each time a word comes, or once a batch."""
    operator = counted_each if spec["kind"] == "each word" else counted
    flow = ps.Flow("words")
    counts = flow.source("words", _source(spark, spec, WORDS)).through(operator)
    counts.sink("topic", KafkaTopic(spec["servers"], spec["answers"], key="word"))
    counts.sink("table", DeltaTable(f"{spec['work']}/table"))
    return flow.start(
        spark,
        checkpoint=f"{spec['work']}/ck",
        engine="resident",
        dead_letters=_topic(spec, "dead"),
        trigger=spec["trigger"],
        replicas={operator.label: 2},
        available_now=spec.get("drain", False),
    )


def _topic(spec: Mapping[str, Any], role: str) -> KafkaTopic | None:
    """The topic for answers, late rows or dead letters, where there is one."""
    return KafkaTopic(spec["servers"], spec[role]) if role in spec else None


def _source(spark: Any, spec: Mapping[str, Any], schema: str) -> Any:
    if "dead" in spec:
        schema += ", _corrupt_record string"
    options = {"kafka.bootstrap.servers": spec["servers"], "subscribe": spec["topic"]}
    most = str(spec.get("most", 0))
    reader = spark.readStream.format("penstock-kafka").schema(schema).options(**options)
    return reader.options(startingOffsets=spec["start"], maxOffsetsPerTrigger=most).load()


@dataclass(frozen=True)
class _Mark:
    """An end of a batch: when it was, and the rows taken and sent until then."""

    time: float
    taken: int
    sent: int


def _measured(query: Any, spec: Mapping[str, Any], taken: Callable[[Any], int]) -> dict[str, Any]:
    """Rows a second between two ends of batches after the warm-up; or, to drain a topic, nothing but the end."""
    if spec.get("drain"):
        query.await_termination()
        return {}
    sent = SentMessages(spec)
    _batch_end(query, taken, sent)
    time.sleep(spec["warm_up"])
    first = _caught_up(query, taken, sent)
    time.sleep(spec["seconds"])
    last = _batch_end(query, taken, sent)
    seconds = last.time - first.time
    return {
        "since": first.time,
        "until": last.time,
        "sent": (last.sent - first.sent) / seconds,
        "taken": (last.taken - first.taken) / seconds,
    }


def _caught_up(query: Any, taken: Callable[[Any], int], sent: "SentMessages") -> _Mark:
    """The end of a batch from which on no more rows are taken than are sent: what waited after the start is worked off.

    Twice in a row, since a batch may by chance take what came during one as long as itself.
    """
    mark, calm = _batch_end(query, taken, sent), 0
    give_up = time.time() + LONGEST
    while time.time() < give_up:
        time.sleep(BETWEEN_LOOKS)
        before, mark = mark, _batch_end(query, taken, sent)
        calm = calm + 1 if mark.taken - before.taken <= 1.05 * (mark.sent - before.sent) else 0
        if calm == 2:
            break
    return mark


def _batch_end(query: Any, taken: Callable[[Any], int], sent: "SentMessages") -> _Mark:
    """Wait for the end of the next batch with rows."""
    before = taken(query)
    while (now := taken(query)) == before:
        if not (query.isActive if hasattr(query, "isActive") else query.is_active):
            ended = query.awaitTermination if hasattr(query, "isActive") else query.await_termination
            ended()  # raises why it did
            raise SystemExit("the query ended by itself")
        time.sleep(0.02)
    return _Mark(time.time(), now, sent.so_far())


def _taken(run: Any) -> int:
    totals = run.progress.get("totals", {"rows": 0}) if isinstance(run, QueryRun) else vars(run.totals)
    return int(totals["rows"])


def _taken_by_spark(query: Any) -> int:
    """Offsets up to which batches were taken: Spark keeps the rows of its last 100 batches only."""
    last = query.lastProgress
    return 0 if last is None else end_offsets(json.loads(last.json))


def end_offsets(progress: Mapping[str, Any]) -> int:
    """The sum of the offsets, over topics and partitions, up to which a batch of Spark's Kafka source read.

    >>> end_offsets({"sources": [{"endOffset": {"orders": {"0": 7, "1": 5}}}]})
    12
    """
    topics = (source["endOffset"] or {} for source in progress["sources"])
    return sum(offset for topic in topics for parts in topic.values() for offset in parts.values())


class SentMessages:
    """What the producer has brought to the topic, by the broker's account."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        library = confluent()
        self._consumer = library.Consumer({"bootstrap.servers": spec["servers"], "group.id": "bench-sent"})
        known = self._consumer.list_topics(spec["topic"], 30).topics[spec["topic"]].partitions
        self._parts = [library.TopicPartition(spec["topic"], number) for number in known]

    def so_far(self) -> int:
        """Messages of all partitions."""
        return sum(int(self._consumer.get_watermark_offsets(part, 10)[1]) for part in self._parts)


if __name__ == "__main__":
    main(sys.argv[1])
