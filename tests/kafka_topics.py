"""Writing and reading topics in tests."""

import json
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition


def new_topic(broker, partitions=1):
    return broker.create(f"t-{uuid.uuid4().hex[:8]}", partitions)


def send(broker, topic, rows, partitions=1):
    """Rows as JSON (bytes as they are), dealt to the partitions in turn."""
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    for at, row in enumerate(rows):
        body = row if isinstance(row, bytes) else json.dumps(row).encode()
        producer.produce(topic, body, partition=at % partitions)
    assert producer.flush(120) == 0


def received(broker, topic):
    """All committed messages of a topic, as a reader of committed messages has them now."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    parts = consumer.list_topics(topic, 60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in parts])
    open_parts, found = set(parts), []
    while open_parts:
        for message in consumer.consume(500, 0.2):
            if message.error() is not None:
                open_parts.discard(message.partition())
            else:
                found.append(json.loads(message.value()))
    consumer.close()
    return found
