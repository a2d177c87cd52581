"""The topic beside a topic of results that says, by run, which batch was the last one to come in whole."""

import time
from collections.abc import Mapping
from typing import Any

from penstock.spark.kafka.client import admin_of, confluent, kafka_error

#: Seconds that one question may take.
STEP = 30.0

_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}


class BatchNumbers:
    """Numbers of batches by run: the value of the last committed message with the run's name as its key."""

    def __init__(self, topic: str, client: Mapping[str, Any]) -> None:
        self.topic, self._client = topic, client

    def last(self, name: str) -> int:
        """The last number of a run, -1 where there is none; makes the topic where it is missing."""
        library = confluent()
        self._make()
        consumer = library.Consumer(
            {
                **self._client,
                "group.id": name,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([library.TopicPartition(self.topic, 0, library.OFFSET_BEGINNING)])
            return self._read(consumer, name.encode())
        finally:
            consumer.close()

    def _read(self, consumer: Any, name: bytes) -> int:
        library = confluent()
        found, give_up = -1, time.monotonic() + STEP
        while time.monotonic() < give_up:
            for message in consumer.consume(1_000, 0.2):
                error = message.error()
                if error is None:
                    give_up = time.monotonic() + STEP
                    if message.key() == name:
                        found = int(message.value())
                elif error.code() == library.KafkaError._PARTITION_EOF:
                    return found
                elif error.code() != library.KafkaError.UNKNOWN_TOPIC_OR_PART:  # not known to all brokers yet
                    raise library.KafkaException(error)
        raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT))

    def _make(self) -> None:
        library = confluent()
        from confluent_kafka.admin import NewTopic

        admin = admin_of(self._client)
        if self.topic in admin.list_topics(timeout=STEP).topics:
            return
        made = admin.create_topics([NewTopic(self.topic, 1, config=_COMPACTED)], request_timeout=STEP)
        try:
            made[self.topic].result(STEP)
        except library.KafkaException as exception:
            if kafka_error(exception).code() != library.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
