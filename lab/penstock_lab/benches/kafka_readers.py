"""Readers of committed messages for ``penstock bench kafka``: who notes lags, who reads all at the end, who reads all the while."""

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock.spark.kafka.client import confluent
from penstock.testing.kafka import LocalBroker

#: Partitions of topics for answers.
ANSWERS = 2


class AnswerReader(threading.Thread):
    """A reader of committed messages, who notes when the last answer to each moment came."""

    def __init__(self, spec: dict[str, Any], field: str) -> None:
        super().__init__(name="answers", daemon=True)
        self._spec, self._field = spec, field
        self._closed = threading.Event()
        self.latest: dict[str, float] = {}

    def run(self) -> None:
        """Read until closed."""
        consumer = _reader(self._spec["servers"], self._spec["answers"])
        while not self._closed.is_set():
            got = consumer.consume(5_000, 0.05)
            now = time.time()
            for message in got:
                if message.error() is None:
                    self.latest[json.loads(message.value())[self._field]] = now
        consumer.close()

    def lags(self, since: float, until: float) -> list[float]:
        """Seconds from a moment to its last answer, for answers that came between two times."""
        self._closed.set()
        self.join()
        return [
            received - datetime.fromisoformat(moment).timestamp()
            for moment, received in self.latest.items()
            if since <= received <= until
        ]


class Follower(threading.Thread):
    """A reader of committed messages of some topics who reads from their beginning, whatever happens to the broker meanwhile."""

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        super().__init__(name="follower", daemon=True)
        self._consumer = _reader(servers, *topics)
        self._closed = threading.Event()
        self.counted: dict[str, Counter[bytes]] = {topic: Counter() for topic in topics}

    def run(self) -> None:
        """Read until closed."""
        while not self._closed.is_set():
            for message in self._consumer.consume(5_000, 0.2):
                if message.error() is None:
                    self.counted[message.topic()][message.value()] += 1

    def agrees(self, whole: Mapping[str, Counter[bytes]], patience: float = 60.0) -> bool:
        """Whether it counts what somebody counted who read all of the topics afterwards; ends it."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up and not self._has_read(whole):
            time.sleep(0.2)
        time.sleep(2.0)  # what comes twice may still come
        self._closed.set()
        self.join()
        self._consumer.close()
        return self.counted == whole

    def _has_read(self, whole: Mapping[str, Counter[bytes]]) -> bool:
        return all(self.counted[topic].total() >= found.total() for topic, found in whole.items())


def committed(broker: LocalBroker, topic: str) -> Counter[bytes]:
    """All committed messages of a topic."""
    codes = confluent().KafkaError
    consumer = _reader(broker.servers, topic)
    left, found = set(range(ANSWERS)), Counter[bytes]()
    while left:
        for message in consumer.consume(5_000, 0.5):
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().code() == codes._PARTITION_EOF:
                left.discard(message.partition())
    consumer.close()
    return found


def _reader(servers: str, *topics: str) -> Any:
    library = confluent()
    settings = {
        "bootstrap.servers": servers,
        "group.id": "bench",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "log_level": 0,  # brokers are killed here
    }
    consumer = library.Consumer(settings)
    consumer.assign([library.TopicPartition(t, p, 0) for t in topics for p in range(ANSWERS)])
    return consumer
