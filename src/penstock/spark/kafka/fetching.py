"""Reading parts of partitions, in whichever process a task runs.

A consumer stays open between batches: the next part of the same partition is mostly there before it is asked for.
Consumers that nobody has used for a while are closed.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.kafka.client import LastWords, away, confluent, is_retriable
from penstock.spark.kafka.options import KafkaOptions

#: Messages that are taken from a consumer at once.
CHUNK = 10_000
#: Seconds after which a consumer that nobody uses is closed.
UNUSED = 60.0


@dataclass(frozen=True)
class OffsetRange:
    """Messages ``start`` to ``end - 1`` of a partition."""

    topic: str
    partition: int
    start: int
    end: int


class PartitionConsumer:
    """A consumer of one partition, at one place in it."""

    def __init__(self, options: KafkaOptions, topic: str, partition: int) -> None:
        self._options, self._topic, self._partition = options, topic, partition
        self._words = LastWords()
        self._consumer = confluent().Consumer(self._words.added_to(options.consumer))
        self._position = -1
        self._ahead: list[Any] = []  # messages beyond the part that was read last
        self.used = time.monotonic()

    def read(self, part: OffsetRange) -> Iterator[list[Any]]:
        """The messages of a part, in order, some at a time."""
        self._go_to(part.start)
        silent = time.monotonic()
        while self._position < part.end:
            # Only gaps in the numbers (of transactions, or in a compacted topic) let more come than were asked for.
            got = self._ahead or self._consumer.consume(min(CHUNK, part.end - self._position), 0.5)
            self._ahead = []
            messages = self._sorted_out(got, part)
            if got:
                silent = time.monotonic()
            elif time.monotonic() - silent > self._options.patience:
                self._position = -1
                raise away(
                    self._options.servers,
                    str(self._words) or f"no message for {self._options.patience:.0f} s",
                )
            if messages:
                yield messages
        self.used = time.monotonic()

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def _go_to(self, offset: int) -> None:
        if self._position == offset:
            return
        self._ahead = []
        place = confluent().TopicPartition(self._topic, self._partition, offset)
        self._consumer.assign([place])
        self._position = offset

    def _sorted_out(self, got: list[Any], part: OffsetRange) -> list[Any]:
        """Messages of the part; what lies beyond it is kept for the next one."""
        messages = []
        for at, message in enumerate(got):
            error = message.error()
            if error is not None:
                self._problem(error, message.offset(), part)
            elif message.offset() >= part.end:
                self._ahead = [m for m in got[at:] if m.error() is None]
                self._position = part.end
                break
            elif message.offset() >= part.start:
                messages.append(message)
                self._position = message.offset() + 1
        return messages

    def _problem(self, error: Any, offset: int, part: OffsetRange) -> None:
        codes = confluent().KafkaError
        if error.code() == codes._PARTITION_EOF:
            # The rest of the part are markers of transactions, which are no messages.
            self._position = max(self._position, min(offset, part.end))
            return
        if is_retriable(error):
            return  # the client tries again by itself; how long is looked after by the caller
        self._position = -1
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise gone(part.topic, part.partition, part.start)
        raise PenstockError(f"Topic '{part.topic}' cannot be read: {error.str()}.")


def gone(topic: str, partition: int, offset: int) -> PenstockError:
    """The sentence for messages that were to be read and are no longer there."""
    return PenstockError(
        f"Message {offset} of topic '{topic}', partition {partition}, is no longer there: it was deleted before it was "
        "read; start with option failOnDataLoss=false to go on with what there is."
    )


_open: dict[tuple[Any, ...], PartitionConsumer] = {}
_lock = threading.Lock()


def fetched(options: KafkaOptions, part: OffsetRange) -> Iterator[list[Any]]:
    """The messages of a part, by a consumer that is kept open."""
    key = (tuple(sorted(options.consumer.items())), part.topic, part.partition)
    with _lock:
        consumer = _open.pop(key, None)  # whoever reads has it alone
        _close_unused()
    consumer = consumer or PartitionConsumer(options, part.topic, part.partition)
    try:
        yield from consumer.read(part)
    except BaseException:
        consumer.close()
        raise
    with _lock:
        twin = _open.pop(key, None)
        _open[key] = consumer
    if twin is not None:
        twin.close()


def _close_unused() -> None:
    now = time.monotonic()
    for key in [k for k, c in _open.items() if now - c.used > UNUSED]:
        _open.pop(key).close()
