"""Batches to a topic against a real broker, without Spark: once each, whatever happens in between."""

import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_topics import new_topic, received
from penstock.core.errors import PenstockError
from penstock.spark.kafka.topic import KafkaTopic
from penstock.spark.runtime.outbox import Waiting


@pytest.fixture
def rows(tmp_path):
    def written(*numbers):
        path = tmp_path / f"{numbers[0]}.parquet"
        pq.write_table(pa.table({"n": list(numbers)}), path)
        return Waiting(tmp_path, [path])

    return written


def seen(broker, topic):
    return sorted(row["n"] for row in received(broker, topic))


def test_a_batch_that_is_delivered_again_is_not_there_twice(broker, rows):
    topic = new_topic(broker, 2)
    place = KafkaTopic(broker.servers, topic, key="n")
    first = place.opened(topic)
    first.deliver(rows(1, 2), 0)
    first.deliver(rows(3), 4)
    second = place.opened(topic)  # another run with the same checkpoint, after a crash
    second.deliver(rows(3), 4)
    second.deliver(rows(4, 5), 6)
    assert seen(broker, topic) == [1, 2, 3, 4, 5]
    with pytest.raises(PenstockError, match="Another run with the same checkpoint"):
        first.deliver(rows(6), 8)
    assert seen(broker, topic) == [1, 2, 3, 4, 5]
    other = place.opened(f"{topic}-other")  # numbers belong to a run, not to the topic
    other.deliver(rows(7), 0)
    assert seen(broker, topic) == [1, 2, 3, 4, 5, 7]


def test_a_transaction_that_was_left_open_counts_for_nothing(broker, rows):
    topic = new_topic(broker)
    place = KafkaTopic(broker.servers, topic)
    dying = place.opened(topic)
    dying._open(30)
    dying._producer.begin_transaction()
    dying._producer.produce(topic, b'{"n": 1}')
    dying._producer.flush()
    place.opened(topic).deliver(rows(1), 0)
    assert seen(broker, topic) == [1]


def test_what_cannot_be_delivered_is_told_in_one_sentence(broker, rows):
    topic = new_topic(broker)
    with pytest.raises(PenstockError, match="have no column 'x'; they have n"):
        KafkaTopic(broker.servers, topic, key="x").opened(topic).deliver(rows(1), 0)
    with pytest.raises(PenstockError, match="has no topic 'nowhere'"):
        KafkaTopic(broker.servers, "nowhere").opened("nowhere").deliver(rows(1), 0)
    with pytest.raises(PenstockError, match="has no topic 'nowhere'"):
        KafkaTopic(broker.servers, "nowhere").opened("nowhere").last()
    wrong = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    with pytest.raises(
        PenstockError, match=r"No Kafka broker answers at .* \(.+\); look whether .* credentials"
    ):
        KafkaTopic(broker.servers, topic, settings=wrong).opened(topic).last()
    with pytest.raises(PenstockError, match="Say where the messages go"):
        KafkaTopic("", "t")


def test_rows_that_operators_put_aside_may_lack_the_key(broker, tmp_path):
    topic = new_topic(broker)
    files = []
    for operator, table in (("a", pa.table({"n": [1]})), ("b", pa.table({"m": ["x"]}))):
        (tmp_path / operator).mkdir()
        files.append(tmp_path / operator / "1.parquet")
        pq.write_table(table, files[-1])
    KafkaTopic(broker.servers, topic, key="n").opened(topic).deliver(Waiting(tmp_path, files), 0)
    assert sorted(received(broker, topic), key=str) == [
        {"m": "x", "operator": "b"},
        {"n": 1, "operator": "a"},
    ]


def test_a_broker_that_comes_back_gets_what_waited(broker, rows):
    topic = new_topic(broker)
    delivery = KafkaTopic(broker.servers, topic).opened(topic)
    delivery.deliver(rows(1), 0)
    broker.kill()
    sending = threading.Thread(target=delivery.deliver, args=(rows(2), 2), daemon=True)
    sending.start()
    time.sleep(1)  # it has begun to try
    broker.start()
    sending.join(600)
    assert seen(broker, topic) == [1, 2]
