"""The topic beside a topic of results that says, by run, which batch was the last one to come in whole."""

import time
from collections.abc import Mapping
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.kafka.client import admin_of, confluent, kafka_error

#: Seconds that one question may take.
STEP = 30.0

#: Where numbers are written. All partitions are read: earlier versions let the client choose one by the run's name.
PARTITION = 0

_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}


class BatchNumbers:
    """Numbers of batches by run: the highest value of the committed messages with the run's name as their key.

    ``patience`` is how many seconds to wait for transactions of other runs with the same topic: who reads committed
    messages gets no further than to the first one that is not over, and a number of the run's own may be behind it.
    """

    def __init__(self, topic: str, client: Mapping[str, Any], patience: float) -> None:
        self.topic, self._client, self._patience = topic, client, patience

    def last(self, name: str) -> int:
        """The last number of a run, -1 where there is none; makes the topic where it is missing."""
        library = confluent()
        self._make()
        ends = self._ends()
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
            consumer.assign([library.TopicPartition(self.topic, p, library.OFFSET_BEGINNING) for p in ends])
            return self._read(consumer, name.encode(), ends)
        finally:
            consumer.close()

    def _read(self, consumer: Any, name: bytes, ends: Mapping[int, int]) -> int:
        """The highest number before ``ends``, of each partition."""
        library = confluent()
        unread = set(ends)
        waiting: set[int] = set()
        found, began = -1, time.monotonic()
        heard = began
        while unread:
            for message in consumer.consume(1_000, 0.2):
                error, partition, offset = message.error(), message.partition(), message.offset()
                if error is None:
                    offset += 1
                    if message.key() == name:
                        found = max(found, int(message.value()))
                elif error.code() == library.KafkaError._PARTITION_EOF:
                    waiting.add(partition)  # for the end of a transaction, unless this is the end
                elif error.code() == library.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue  # not known to all brokers yet
                else:
                    raise library.KafkaException(error)
                heard = time.monotonic()
                if offset >= ends[partition]:
                    unread.discard(partition)
            now = time.monotonic()
            if unread - waiting:
                if now - heard > STEP:
                    raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT))
            elif unread and now - began > self._patience:
                raise PenstockError(
                    f"A transaction of another run on topic '{self.topic}' has not ended for {self._patience:.0f} s, and what "
                    "this run has sent already cannot be told before; stop the run that hangs, or wait until Kafka ends its "
                    "transaction (after transaction.timeout.ms), and start again."
                )
        return found

    def _ends(self) -> dict[int, int]:
        """The number of the next message of each partition, whether what is before it is committed or not."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        library = confluent()
        admin = admin_of(self._client)
        give_up = time.monotonic() + STEP
        while True:
            try:
                parts = admin.list_topics(self.topic, timeout=STEP).topics[self.topic].partitions
                answers = admin.list_offsets(
                    {TopicPartition(self.topic, part): OffsetSpec.latest() for part in parts},
                    isolation_level=IsolationLevel.READ_UNCOMMITTED,
                    request_timeout=STEP,
                )
                ends = {part.partition: int(answer.result().offset) for part, answer in answers.items()}
                # No error, and no offset either: a broker that is coming back.
                if ends and min(ends.values()) >= 0:
                    return ends
            except library.KafkaException:
                if time.monotonic() > give_up:
                    raise
            if time.monotonic() > give_up:
                raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT))
            time.sleep(0.2)  # not known to all brokers yet

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
