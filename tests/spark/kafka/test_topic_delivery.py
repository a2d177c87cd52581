"""Batches to a topic against a real broker, without Spark: once each, whatever happens in between."""

import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

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


def hanging(broker, topic, name):
    """Another producer with a message in a transaction that is not over."""
    other = Producer({"bootstrap.servers": broker.servers, "transactional.id": name, "log_level": 0})
    other.init_transactions(60)
    other.begin_transaction()
    other.produce(topic, b"0", b"other")
    other.flush()
    return other


def test_a_number_behind_an_open_transaction_of_another_run_is_waited_for(broker, rows):
    topic = new_topic(broker)
    place = KafkaTopic(broker.servers, topic)
    first = place.opened(topic)
    first.deliver(rows(1), 0)
    other = hanging(broker, f"{topic}.penstock", f"{topic}-other")
    first.deliver(rows(2), 2)
    with pytest.raises(
        PenstockError, match=r"A transaction of another run .* not ended for 1 s, .* start again"
    ):
        KafkaTopic(broker.servers, topic, patience=1).opened(topic).last()
    second = place.opened(topic)  # after a crash
    sending = threading.Thread(target=second.deliver, args=(rows(2), 2), daemon=True)
    sending.start()
    time.sleep(2)
    assert sending.is_alive()
    other.abort_transaction(60)
    sending.join(60)
    assert not sending.is_alive()
    assert seen(broker, topic) == [1, 2]


def test_numbers_are_found_in_whichever_partition_they_are(broker, rows):
    topic = new_topic(broker)
    broker.create(f"{topic}.penstock", 5)
    place = KafkaTopic(broker.servers, topic)
    for n in range(4):
        for _ in range(2):
            place.opened(f"{topic}-{n}").deliver(rows(n), 6)
    assert seen(broker, topic) == [0, 1, 2, 3]
    earlier = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    earlier.produce(f"{topic}.penstock", b"48", f"penstock-{topic}-0".encode(), partition=3)
    earlier.flush()
    assert place.opened(f"{topic}-0").last() == 48


def test_rows_that_python_or_json_cannot_have_are_sent_all_the_same(broker, tmp_path):
    topic = new_topic(broker)
    far = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            "far": far,
            "day": pa.array([3_000_000], pa.date32()),
            "inside": pa.StructArray.from_arrays([far], ["far"]),
            "some": pa.ListArray.from_arrays([0, 1], far),
            "shares": pa.array([[("a", float("nan")), ("b", 1.0)]], pa.map_(pa.string(), pa.float64())),
            "text": pa.array(["Ж" * 300_000]),  # six bytes each, were they escaped
        }
    )
    pq.write_table(table, tmp_path / "1.parquet")
    place = KafkaTopic(broker.servers, topic, key="far")
    place.opened(topic).deliver(Waiting(tmp_path, [tmp_path / "1.parquet"]), 0)
    (row,) = received(broker, topic)
    moment = "10000-01-01T00:00:00.000000Z"
    assert row == {
        "far": moment,
        "day": "10183-09-21",
        "inside": {"far": moment},
        "some": [moment],
        "shares": [["a", None], ["b", 1.0]],
        "text": "Ж" * 300_000,
    }


@pytest.mark.parametrize("letters", [3_000, 2_000_000])
def test_a_row_that_is_too_large_is_told_in_one_sentence(broker, tmp_path, letters):
    """By the broker, or by the client already."""
    topic = f"small-{letters}-{new_topic(broker)}"
    broker.create(topic, config={"max.message.bytes": "2000"})
    pq.write_table(pa.table({"text": ["x" * letters]}), tmp_path / "1.parquet")
    delivery, began = KafkaTopic(broker.servers, topic).opened(topic), time.monotonic()
    with pytest.raises(
        PenstockError, match=f"A row is too large a message for topic '{topic}'; allow larger"
    ):
        delivery.deliver(Waiting(tmp_path, [tmp_path / "1.parquet"]), 0)
    assert time.monotonic() - began < 60


class Slow:
    """Rows of a batch, something happening between them."""

    def __init__(self, between, count=2):
        self._between, self._count = between, count

    def by_operator(self):
        for n in range(self._count):
            yield "", pa.table({"n": [n]})
            self._between(n)


def test_a_batch_that_takes_longer_than_a_transaction_may_blames_nobody_else(broker):
    topic = new_topic(broker)
    place = KafkaTopic(broker.servers, topic, settings={"transaction.timeout.ms": "1000"})
    with pytest.raises(
        PenstockError, match=r"could not be sent to topic .* within 1 s.*transaction\.timeout\.ms"
    ):
        # Brokers look every ten seconds; the client learns of it with the second row, and refuses the third.
        place.opened(topic).deliver(Slow(lambda n: time.sleep((15, 2, 0)[n]), 3), 0)
    assert seen(broker, topic) == []
    assert KafkaTopic(broker.servers, topic).opened(topic)._usual["transaction.timeout.ms"] == 900_000


def test_brokers_that_allow_only_short_transactions_get_them(broker, rows, monkeypatch):
    monkeypatch.setattr("penstock.spark.kafka.topic.LONGEST", 7_200_000)
    topic = new_topic(broker)
    delivery = KafkaTopic(broker.servers, topic).opened(topic)
    delivery.deliver(rows(1), 0)
    assert delivery._usual["transaction.timeout.ms"] == 60_000
    assert seen(broker, topic) == [1]
    asked = KafkaTopic(broker.servers, topic, settings={"transaction.timeout.ms": "7200000"})
    with pytest.raises(PenstockError, match="larger than the maximum"):
        asked.opened(f"{topic}-asked").last()


def test_what_the_user_sets_is_what_the_client_gets(broker):
    names = {name: name for name in ("message.timeout.ms", "transaction.timeout.ms")}
    for setting, told in {**names, "linger.ms": "queue.buffering.max.ms"}.items():
        place = KafkaTopic(broker.servers, "t", settings={setting: "soon"})
        with pytest.raises(PenstockError, match=f"Invalid value .*{told}"):
            place.opened("t").last()


def test_a_broker_that_goes_away_while_rows_are_produced_gets_them_when_it_is_back(broker):
    topic = new_topic(broker)
    hasty = {"message.timeout.ms": "1000", "queue.buffering.max.messages": "5"}
    delivery = KafkaTopic(broker.servers, topic, settings=hasty).opened(topic)
    gone = threading.Event()

    def between(n):
        if n == 10 and not gone.is_set():
            broker.kill()
            gone.set()

    sending = threading.Thread(target=delivery.deliver, args=(Slow(between, 40), 0), daemon=True)
    sending.start()
    assert gone.wait(60)
    time.sleep(4)  # messages have timed out
    broker.start()
    sending.join(120)
    assert not sending.is_alive()
    assert seen(broker, topic) == list(range(40))
