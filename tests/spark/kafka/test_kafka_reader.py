"""The reader of ``penstock-kafka`` against a real broker, without Spark."""

import json
import pickle
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import NewPartitions
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from penstock.core.errors import PenstockError
from penstock.spark.kafka.client import is_retriable
from penstock.spark.kafka.fetching import OffsetRange, fetched
from penstock.spark.kafka.offsets import Brokers
from penstock.spark.kafka.options import KafkaOptions
from penstock.spark.runtime.source_away import SourceAwayError
from penstock.spark.sources.kafka import KafkaReader
from waiting import until

SCHEMA = (
    StructType()
    .add("n", LongType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_corrupt_record", StringType())
)


@pytest.fixture
def topic(broker):
    return broker.create(f"t-{uuid.uuid4().hex[:8]}", 2)


def reader(broker, topic, **options):
    given = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "startingOffsets": "earliest"}
    return KafkaReader(KafkaOptions.parse({**given, **options}), SCHEMA)


def send(broker, topic, numbers, partition=0, commit=True, transaction=None):
    settings = {"bootstrap.servers": broker.servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": transaction} if transaction else settings)
    if transaction:
        producer.init_transactions(60)
        producer.begin_transaction()
    for n in numbers:
        producer.produce(
            topic, n if isinstance(n, bytes) else json.dumps({"n": n}).encode(), partition=partition
        )
    producer.flush()
    if transaction:
        (producer.commit_transaction if commit else producer.abort_transaction)(60)


def taken(source, start, end):
    """The rows of a batch, read by whoever got the pickled reader."""
    there = pickle.loads(pickle.dumps(source))
    return [
        row
        for part in source.partitions(start, end)
        for batch in there.read(part)
        for row in batch.to_pylist()
    ]


def ask_until_told(source, end):
    """Brokers tell each other of a deleted topic."""
    while True:
        source.latestOffset(end, source.getDefaultReadLimit())


def numbers(rows):
    return sorted(row["n"] for row in rows)


def test_batches_are_parts_of_the_topic_without_gap_or_overlap(broker, topic):
    source = reader(broker, topic, maxOffsetsPerTrigger="30")
    send(broker, topic, range(70), 0)
    send(broker, topic, range(70, 100), 1)
    at, seen, sizes = source.initialOffset(), [], []
    while (end := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        rows = taken(source, at, end)
        assert source.backlog(end) == 100 - len(seen) - len(rows)
        seen, at = seen + rows, end
        sizes.append(len(rows))
    assert numbers(seen) == list(range(100))
    assert sizes == [30, 30, 30, 10]
    assert len({(r["_partition"], r["_offset"]) for r in seen}) == 100
    assert numbers(taken(source, source.initialOffset(), at)) == list(range(100))  # a batch can be read again


def test_messages_of_aborted_transactions_are_not_there(broker, topic):
    source = reader(broker, topic)
    send(broker, topic, range(10), transaction=f"{topic}-a")
    send(broker, topic, range(10, 20), commit=False, transaction=f"{topic}-b")
    start = source.initialOffset()
    end = source.latestOffset(start, source.getDefaultReadLimit())
    assert numbers(taken(source, start, end)) == list(range(10))  # and the markers at the end stop nobody
    send(broker, topic, range(20, 30), transaction=f"{topic}-a")
    send(broker, topic, range(30, 40), commit=False, transaction=f"{topic}-b")
    later = source.latestOffset(end, source.getDefaultReadLimit())
    assert numbers(taken(source, end, later)) == list(range(20, 30))


def test_partitions_that_come_while_it_runs_are_read_from_their_beginning(broker, topic):
    source = reader(broker, topic, startingOffsets="latest")
    send(broker, topic, range(5))
    start = source.initialOffset()
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(60)
    end = start
    while "2" not in end[topic]:  # brokers tell each other
        send(broker, topic, [7], 2)
        end = source.latestOffset(start, source.getDefaultReadLimit())
    assert set(numbers(taken(source, start, end))) == {7}


def test_messages_that_are_gone_end_the_run_unless_told_to_go_on(broker, topic):
    from confluent_kafka import TopicPartition

    source, careless = reader(broker, topic), reader(broker, topic, failOnDataLoss="false")
    send(broker, topic, range(20))
    start = source.initialOffset()
    admin = broker.admin()
    admin.delete_records([TopicPartition(topic, 0, 15)])[TopicPartition(topic, 0)].result(60)
    end = source.latestOffset(start, source.getDefaultReadLimit())
    with pytest.raises(PenstockError, match=r"no longer there.*failOnDataLoss=false"):
        taken(source, start, end)
    assert numbers(taken(careless, start, end)) == [15, 16, 17, 18, 19]


def test_a_topic_that_is_made_anew_is_read_anew_unless_loss_matters(broker, topic):
    source, careless = reader(broker, topic), reader(broker, topic, failOnDataLoss="false")
    send(broker, topic, range(20))
    end = source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result(60)
    with pytest.raises(PenstockError, match=f"no topic '{topic}'"):
        ask_until_told(source, end)
    assert careless.latestOffset(end, careless.getDefaultReadLimit()) == end
    broker.create(topic, 2)
    send(broker, topic, [1, 2, 3])
    while (later := careless.latestOffset(end, careless.getDefaultReadLimit())) == end:
        pass
    with pytest.raises(PenstockError, match="no longer there"):
        source.partitions(end, later)
    assert numbers(taken(careless, end, later)) == [1, 2, 3]


def test_brokers_that_come_back_are_away_until_they_know_all_again(broker, topic):
    send(broker, topic, range(5))
    asked, stop = Counter(), threading.Event()

    def ask():
        brokers = Brokers(reader(broker, topic, patience="1 s")._options)
        while not stop.is_set():
            try:
                ends = brokers.latest()
                asked[f"{ends[topic]['0']} messages"] += 1
            except PenstockError as error:
                asked[type(error).__name__] += 1

    with ThreadPoolExecutor() as pool:
        tasks = [pool.submit(ask) for _ in range(4)]
        try:
            for _ in range(3):
                broker.kill()
                broker.start()
                before = asked["5 messages"]
                until(lambda before=before: asked["5 messages"] > before + 20, "answers")
        finally:
            stop.set()
        for task in tasks:
            task.result()
    assert set(asked) == {"5 messages", "SourceAwayError"}


@pytest.mark.parametrize(
    "code", ["UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "LEADER_NOT_AVAILABLE", "_NOENT", "_TRANSPORT"]
)
def test_what_passes_by_itself_is_tried_again(code):
    assert is_retriable(KafkaError(getattr(KafkaError, code)))


@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART", "INVALID_REQUEST"])
def test_what_does_not_pass_is_told_at_once(code):
    assert not is_retriable(KafkaError(getattr(KafkaError, code)))


def test_bad_messages_are_rows_with_their_text(broker, topic):
    source = reader(broker, topic)
    send(broker, topic, [1, b"oops", 2])
    start = source.initialOffset()
    rows = taken(source, start, source.latestOffset(start, source.getDefaultReadLimit()))
    assert [(r["n"], r["_corrupt_record"]) for r in rows] == [(1, None), (None, "oops"), (2, None)]


def test_wrong_options_and_missing_brokers_are_told_in_one_sentence(broker):
    with pytest.raises(PenstockError, match=r"kafka\.bootstrap\.servers"):
        KafkaOptions.parse({"subscribe": "t"})
    with pytest.raises(PenstockError, match="which topics"):
        KafkaOptions.parse({"kafka.bootstrap.servers": "a:1"})
    with pytest.raises(PenstockError, match="did you mean 'startingOffsets'"):
        KafkaOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t", "startingOffset": "latest"})
    with pytest.raises(PenstockError, match="earliest, latest, or JSON"):
        KafkaOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t", "startingOffsets": "now"})
    with pytest.raises(SourceAwayError, match=r"No Kafka broker answers at '127\.0\.0\.1:1'"):
        reader(broker, "t", patience="1 s", **{"kafka.bootstrap.servers": "127.0.0.1:1"}).initialOffset()
    with pytest.raises(PenstockError, match="has no topic 'nowhere'"):
        reader(broker, "nowhere").initialOffset()


def test_credentials_are_needed_where_they_are_and_never_shown(broker, topic):
    there = {"kafka.bootstrap.servers": broker.locked, "patience": "2 s"}
    with pytest.raises(SourceAwayError, match="credentials are right"):
        reader(broker, topic, **there).initialOffset()
    let_in = {**there, **{f"kafka.{k}": v for k, v in broker.credentials.items()}}
    assert reader(broker, topic, **let_in).initialOffset() == {topic: {"0": 0, "1": 0}}
    assert broker.credentials["sasl.password"] not in repr(KafkaOptions.parse({**let_in, "subscribe": topic}))


def test_the_end_behind_a_message_that_is_kept_for_the_next_part_is_not_forgotten(broker, topic):
    """Small transactions: what a part asks for reaches beyond it, up to the end of the topic, which is told once."""
    send(broker, topic, [1], transaction=f"{topic}-a")  # 0, and a marker
    send(broker, topic, range(3), commit=False, transaction=f"{topic}-b")  # 2 to 4, and a marker
    send(broker, topic, [2], transaction=f"{topic}-a")  # 6, and a marker
    options = reader(broker, topic, patience="5 s")._options

    def read(start, end):
        parts = fetched(options, OffsetRange(topic, 0, start, end))
        return [m.offset() for messages in parts for m in messages]

    assert [read(0, 6), read(6, 7), read(7, 8)] == [[0], [6], []]
    send(broker, topic, [3], transaction=f"{topic}-a")  # 8, and a marker
    assert read(8, 10) == [8]


def test_messages_that_go_between_the_plan_and_the_reading_end_the_run_unless_told_to_go_on(broker, topic):
    from confluent_kafka import TopicPartition

    source = reader(broker, topic)
    careless = [reader(broker, topic, failOnDataLoss="false") for _ in range(2)]
    send(broker, topic, range(20))
    start, end = {topic: {"0": 0, "1": 0}}, {topic: {"0": 18, "1": 0}}
    plans = [(it, it.partitions(start, end)) for it in (source, *careless)]
    admin = broker.admin()

    def read(plan):
        it, (part,) = plan
        return [row["n"] for batch in it.read(part) for row in batch.to_pylist()]

    admin.delete_records([TopicPartition(topic, 0, 15)])[TopicPartition(topic, 0)].result(60)
    with pytest.raises(PenstockError, match=r"no longer there.*failOnDataLoss=false"):
        read(plans[0])
    assert read(plans[1]) == [15, 16, 17]
    admin.delete_records([TopicPartition(topic, 0, 19)])[TopicPartition(topic, 0)].result(60)
    assert read(plans[2]) == []
    (rest,) = careless[0].partitions(end, {topic: {"0": 20, "1": 0}})
    assert [row["n"] for batch in careless[0].read(rest) for row in batch.to_pylist()] == [19]
