"""A topic as the place for results: each batch once, for readers of committed messages.

The messages of a batch and its number are one transaction. Numbers are messages of a small compacted topic beside the
results, ``TOPIC.penstock``, with the run's name as their key. After a crash, the first thing a run does is to take
over the transactions of its predecessor (which ends them) and to look its number up.

Offsets of a consumer group would do for the numbers too, but Kafka forgets them after a week, and librdkafka 2.16 waits for
ever where the broker is restarted while it adds them to a transaction.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.spark.kafka.batch_numbers import PARTITION, BatchNumbers
from penstock.spark.kafka.client import (
    PATIENCE,
    LastWords,
    away,
    confluent,
    is_retriable,
    kafka_error,
    shown,
)
from penstock.spark.runtime.json_rows import json_rows, python_values
from penstock.spark.runtime.outbox import Delivery, Destination, Waiting

#: Seconds that one step of a transaction may take, or a queue of messages none of which comes through.
STEP = 30.0

#: Milliseconds after which brokers end a transaction: as many as they usually allow, or the client's own default.
LONGEST, USUAL = 900_000, 60_000

#: Milliseconds until a broker that says nothing is given up, which librdkafka would draw from the former.
SILENCE = 60_000


@dataclass(frozen=True)
class KafkaTopic(Destination):
    """A topic for results, late rows or dead letters.

    Parameters
    ----------
    servers
        Brokers, as ``HOST:PORT,HOST:PORT``.
    topic
        The topic's name. It must exist, unless the brokers make topics by themselves; ``TOPIC.penstock`` is made here.
    key
        The column that makes a message's key; without one messages are spread over the partitions (as are dead letters
        of operators whose tuples have no such column).
    value
        The column (text or bytes) that is the message; by default a message is a JSON object of all columns.
    settings
        Further settings of the client, as librdkafka spells them: ``{"security.protocol": "SASL_SSL", ...}``. A batch must
        be sent within ``transaction.timeout.ms``, 15 minutes where nothing else is said and the brokers allow it.
    patience
        Seconds to wait for brokers that do not answer before the run ends. Nothing is lost by that: a later start
        delivers what waits.

    >>> KafkaTopic("127.0.0.1:9092", "answers", key="region")
    KafkaTopic('127.0.0.1:9092', 'answers')
    """

    servers: str
    topic: str
    key: str | None = None
    value: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    patience: float = 300.0

    def __post_init__(self) -> None:
        if not self.servers or not self.topic:
            raise PenstockError("Say where the messages go: KafkaTopic('HOST:PORT', 'TOPIC').")

    def opened(self, name: str) -> Delivery:
        """A transactional producer."""
        confluent()
        return TopicDelivery(self, name)

    def __repr__(self) -> str:
        settings = f", settings={shown(self.settings)}" if self.settings else ""
        return f"KafkaTopic({self.servers!r}, {self.topic!r}{settings})"


class TopicDelivery:
    """Transactions of one run with one topic."""

    def __init__(self, topic: KafkaTopic, name: str) -> None:
        self._topic, self._name = topic, f"penstock-{name}"
        self._words = LastWords()
        self._client = self._words.added_to({**topic.settings, "bootstrap.servers": topic.servers})
        self._numbers = BatchNumbers(f"{topic.topic}.penstock", self._client, topic.patience)
        self._producer: Any = None
        self._last = -1
        #: Milliseconds that a transaction may take, and since when there is one.
        given = str(self._client.get("transaction.timeout.ms", LONGEST))
        self._longest = int(given) if given.isdigit() else LONGEST  # the client says what is wrong with it
        self._began = inf

    def deliver(self, rows: Waiting, number: int) -> None:
        """Send the rows once, however often it has to be tried."""

        def send() -> None:
            self._open(STEP)
            if self._last < number:
                self._transaction(rows, number)
                self._last = number

        self._tried(send, self._topic.patience)

    def last(self) -> int:
        """The last number that came in whole; a run that is just starting does not wait long for brokers."""
        seconds = min(PATIENCE, self._topic.patience)
        self._tried(lambda: self._open(seconds), seconds)
        return self._last

    def close(self) -> None:
        """Leave the brokers; an open transaction is aborted by the next who takes the name."""
        self._producer = None

    def _tried(self, step: Callable[[], None], patience: float) -> None:
        """Do something, again and again where brokers do not answer, for so many seconds."""
        library = confluent()
        give_up = time.monotonic() + patience
        while True:
            self._began = inf
            try:
                return step()
            except library.KafkaException as exception:
                # Whether a transaction counts is not known: a new producer settles it, and the number tells.
                self.close()
                self._judge(kafka_error(exception), time.monotonic() > give_up)
                time.sleep(0.2)

    def _open(self, seconds: float) -> None:
        """Take the name over, and look up the last number that was committed under it."""
        if self._producer is not None:
            return
        library = confluent()
        producer = library.Producer({**self._usual, **self._client, "transactional.id": self._name})
        self._find(producer, seconds)
        try:
            producer.init_transactions(STEP)
        except library.KafkaException as exception:
            too_long = kafka_error(exception).code() == library.KafkaError.INVALID_TRANSACTION_TIMEOUT
            if not too_long or "transaction.timeout.ms" in self._client or self._longest == USUAL:
                raise
            self._longest = USUAL  # these brokers do not allow more
            self._open(seconds)
            return
        self._last = max(self._last, self._numbers.last(self._name))
        self._producer = producer

    @property
    def _usual(self) -> dict[str, Any]:
        """Settings of the producer that the user may have set otherwise."""
        silence = min(SILENCE, max(self._longest - 100, 1_000))
        return {"linger.ms": 5, "transaction.timeout.ms": self._longest, "socket.timeout.ms": silence}

    def _find(self, producer: Any, seconds: float) -> None:
        """Look for the topic, twice: brokers that make topics by themselves do so when they are asked."""
        library = confluent()
        try:
            for _ in range(2):
                error = (
                    producer.list_topics(self._topic.topic, timeout=seconds).topics[self._topic.topic].error
                )
                if error is None:
                    return
                time.sleep(1)
        finally:
            producer.poll(0)  # the cause of a time-out is told to a callback
        raise library.KafkaException(error)

    def _transaction(self, rows: Waiting, number: int) -> None:
        producer = self._producer
        producer.begin_transaction()
        self._began = time.monotonic()
        for key, value in self._messages(rows):
            self._produce(self._topic.topic, key, value)
        self._produce(self._numbers.topic, self._name.encode(), str(number).encode(), PARTITION)
        left = len(producer) + 1
        while (now := producer.flush(STEP)) and now < left:  # the commit would wait that long once
            left = now
        producer.commit_transaction(STEP)

    def _produce(self, topic: str, key: bytes | None, value: bytes, partition: int = -1) -> None:
        library = confluent()
        give_up = time.monotonic() + STEP
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
                return
            except BufferError:
                if time.monotonic() > give_up:
                    raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT)) from None
                self._producer.poll(0.1)
            except library.KafkaException as exception:
                if kafka_error(exception).code() in (library.KafkaError._STATE, library.KafkaError._FATAL):
                    self._producer.begin_transaction()  # says what ended the one at hand
                raise

    def _messages(self, rows: Waiting) -> Iterator[tuple[bytes | None, bytes]]:
        for operator, table in rows.by_operator():
            if operator and "operator" not in table.column_names:
                table = table.append_column("operator", pa.array([operator] * table.num_rows))
            keys = self._keys(table, bool(operator))
            values = self._column(table, self._topic.value) if self._topic.value else json_rows(table)
            for key, value in zip(keys, values, strict=True):
                yield key, value or b""

    def _keys(self, table: pa.Table, aside: bool) -> list[bytes | None]:
        """Keys of messages; rows that operators put ``aside`` are of several kinds, and some may have no such column."""
        name = self._topic.key
        if name is None or (aside and name not in table.column_names):
            return [None] * table.num_rows
        return self._column(table, name)

    def _column(self, table: pa.Table, name: str) -> list[bytes | None]:
        if name not in table.column_names:
            raise PenstockError(
                f"The rows for topic '{self._topic.topic}' have no column '{name}'; they have {', '.join(table.column_names)}."
            )
        column = table.column(name)
        if pa.types.is_binary(column.type):
            return list(column.to_pylist())
        return [None if v is None else str(v).encode() for v in python_values(column)]

    def _judge(self, error: Any, late: bool) -> None:
        """Raise where trying again does not help, or has been tried for long enough."""
        codes = confluent().KafkaError
        topic, servers = self._topic.topic, self._topic.servers
        took_over = (
            codes._FENCED,
            codes.PRODUCER_FENCED,
            codes.INVALID_PRODUCER_EPOCH,
            codes.INVALID_TXN_STATE,
        )
        if error.code() in took_over and (time.monotonic() - self._began) * 1000 >= self._longest:
            raise PenstockError(
                f"The rows of a batch could not be sent to topic '{topic}' within {self._longest / 1000:.0f} s, after which "
                "Kafka drops them; allow more in the topic's settings= (transaction.timeout.ms) and, where that is less, in "
                "the brokers' transaction.max.timeout.ms, and start again."
            ) from None
        if error.code() in took_over[:3]:
            raise PenstockError(
                f"Another run with the same checkpoint writes to topic '{topic}'; stop that one."
            ) from None
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
            raise PenstockError(
                f"Kafka at '{servers}' has no topic '{topic}'; create it and start again."
            ) from None
        if error.code() == codes.MSG_SIZE_TOO_LARGE:
            raise PenstockError(
                f"A row is too large a message for topic '{topic}'; allow larger ones (max.message.bytes of the topic, and "
                "message.max.bytes in its settings= beyond 1 MB), and start again."
            ) from None
        hopeless = (
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
            codes.INVALID_TRANSACTION_TIMEOUT,
        )
        # What aborts a transaction, or ends a producer, does so to this one only: the next may go through.
        passing = is_retriable(error) or error.txn_requires_abort() or error.fatal()
        if passing and error.code() not in hopeless:
            if not late:
                return
            raise away(servers, str(self._words) or error.str()) from None
        raise PenstockError(
            f"Kafka at '{servers}' refused messages for topic '{topic}': {error.str()}."
        ) from None
