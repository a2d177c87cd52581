"""Where topics begin and end, and which part of them a batch takes.

An offset is the number of the next message by topic and partition, ``{"trips": {"0": 17, "1": 4}}``, as Spark writes it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.kafka.client import (
    PATIENCE,
    LastWords,
    admin_of,
    away,
    confluent,
    is_retriable,
    kafka_error,
)
from penstock.spark.kafka.options import EARLIEST, LATEST, KafkaOptions

Offsets = dict[str, dict[str, int]]


class TopicGoneError(PenstockError):
    """A topic does not exist."""


class Brokers:
    """Asks brokers about topics; every question has one answer or one sentence."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._patience = min(PATIENCE, options.patience)
        self._words = LastWords()
        self._admin = admin_of(self._words.added_to(options.client))

    def earliest(self) -> Offsets:
        """The oldest messages that are still there."""
        return self._offsets(EARLIEST)

    def latest(self) -> Offsets:
        """The ends of all partitions."""
        return self._offsets(LATEST)

    def _offsets(self, which: str) -> Offsets:
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if which == EARLIEST else OffsetSpec.latest()
        level = (
            IsolationLevel.READ_COMMITTED if self._options.committed_only else IsolationLevel.READ_UNCOMMITTED
        )
        wanted = {TopicPartition(t, p): spec for t, count in self._partitions().items() for p in range(count)}
        found: Offsets = {topic: {} for topic in self._options.topics}
        answers = self._asked(
            lambda: self._admin.list_offsets(wanted, isolation_level=level, request_timeout=self._patience)
        )
        for part, answer in answers.items():
            offset = int(self._asked(answer.result).offset)
            if offset < 0:  # no error, and no offset either: a broker that is just coming back
                raise away(self._options.servers, f"no offset of topic '{part.topic}' is known")
            found[part.topic][str(part.partition)] = offset
        return found

    def _partitions(self) -> dict[str, int]:
        """How many partitions each topic has now."""
        counts = {}
        for topic in self._options.topics:
            told = self._asked(partial(self._admin.list_topics, topic, timeout=self._patience)).topics[topic]
            if told.error is not None or not told.partitions:
                raise self._no_topic(topic, told.error)
            counts[topic] = len(told.partitions)
        return counts

    def _asked(self, question: Callable[[], Any]) -> Any:
        library = confluent()
        try:
            return question()
        except library.KafkaException as exception:
            self._admin.poll(0)  # the cause is told to a callback
            error = kafka_error(exception)
            if error.code() == library.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._no_topic(",".join(self._options.topics), error) from None
            if is_retriable(error):
                raise away(self._options.servers, str(self._words) or error.str()) from None
            raise PenstockError(f"Kafka at '{self._options.servers}' refused: {error.str()}.") from None
        except TimeoutError as error:
            raise away(self._options.servers, str(self._words) or error) from None

    def _no_topic(self, topic: str, error: Any) -> PenstockError:
        library = confluent()
        if error is not None and error.code() not in (
            library.KafkaError.UNKNOWN_TOPIC_OR_PART,
            library.KafkaError._UNKNOWN_TOPIC,
        ):
            if is_retriable(error):
                return away(self._options.servers, error.str())
            return PenstockError(
                f"Kafka at '{self._options.servers}' refused topic '{topic}': {error.str()}."
            )
        return TopicGoneError(
            f"Kafka at '{self._options.servers}' has no topic '{topic}'; create it, or correct option 'subscribe'."
        )


def first_offsets(brokers: Brokers, options: KafkaOptions) -> Offsets:
    """Where a new run begins."""
    if options.start == LATEST:
        return brokers.latest()
    earliest = brokers.earliest()
    if isinstance(options.start, str):
        return earliest
    latest = brokers.latest()
    first = {}
    for topic, parts in earliest.items():
        asked = options.start.get(topic, {})
        special = {p: {-2: n, -1: latest[topic][p]} for p, n in parts.items()}
        first[topic] = {p: special[p].get(asked.get(p, -2), asked.get(p, -2)) for p in parts}
    return first


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """At most so many messages after ``start``, each partition in proportion to what it has.

    >>> limited({"t": {"0": 0, "1": 0}}, {"t": {"0": 90, "1": 10}}, 50)
    {'t': {'0': 45, '1': 5}}
    """
    # A partition that ends before it began is a new one: its topic was made anew.
    begins = {(t, p): start.get(t, {}).get(p, 0) for t, p, _ in _items(end)}
    base = {(t, p): begins[t, p] if begins[t, p] <= n else 0 for t, p, n in _items(end)}
    waiting = {(t, p): n - base[t, p] for t, p, n in _items(end)}
    total = sum(waiting.values())
    if not most or total <= most:
        return end
    shares = {key: n * most // total for key, n in waiting.items()}
    left = most - sum(shares.values())
    for key in sorted(waiting, key=lambda k: shares[k] - waiting[k])[:left]:
        shares[key] += 1
    return {t: {p: base[t, p] + shares[t, p] for p in parts} for t, parts in end.items()}


def behind(start: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """Messages between two offsets.

    >>> behind({"t": {"0": 5}}, {"t": {"0": 9, "1": 2}})
    6
    """
    return sum(max(0, n - start.get(t, {}).get(p, 0)) for t, p, n in _items(end))


def _items(offsets: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    for topic, parts in offsets.items():
        for part, number in parts.items():
            yield topic, part, number
