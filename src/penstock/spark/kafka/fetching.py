"""Reading parts of partitions, in whichever process a task runs.

A consumer stays open between batches: the next part of the same partition is mostly there before it is asked for.
Consumers that nobody has used for a while are closed.
"""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.kafka.client import PATIENCE, LastWords, away, confluent, is_retriable, kafka_error
from penstock.spark.kafka.options import KafkaOptions

log = logging.getLogger(__name__)

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
        self._ahead: list[Any] = []  # what came beyond the part that was read last
        #: Where the client last told of an end, which it does once: all messages before it have come.
        self._told = -1
        self.used = time.monotonic()

    def read(self, part: OffsetRange) -> Iterator[list[Any]]:
        """The messages of a part, in order, some at a time."""
        self._go_to(part.start)
        silent = time.monotonic()
        while self._position < part.end:
            if self._position < self._told and not self._ahead:
                # The rest up to there are markers of transactions, which are no messages.
                self._position = min(self._told, part.end)
                continue
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
        self._ahead, self._told = [], -1
        place = confluent().TopicPartition(self._topic, self._partition, offset)
        self._consumer.assign([place])
        self._position = offset

    def _sorted_out(self, got: list[Any], part: OffsetRange) -> list[Any]:
        """Messages of the part; what lies beyond it is kept for the next one."""
        messages = []
        for at, message in enumerate(got):
            error = message.error()
            if error is not None:
                if self._elsewhere(error, message.offset(), part):
                    break
            elif message.offset() >= part.end:
                self._ahead = got[at:]
                self._position = part.end
                break
            elif message.offset() >= part.start:
                messages.append(message)
                self._position = message.offset() + 1
        return messages

    def _elsewhere(self, error: Any, offset: int, part: OffsetRange) -> bool:
        """What to do about an error; whether the reading goes on at another place, so that nothing else counts."""
        codes = confluent().KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._told = offset
            return False
        if is_retriable(error):
            return False  # the client tries again by itself; how long is looked after by the caller
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            self._pass_over(part)
            return True
        self._position = -1
        raise PenstockError(f"Topic '{part.topic}' cannot be read: {error.str()}.")

    def _pass_over(self, part: OffsetRange) -> None:
        """Go on with the oldest message that is still there, if the user wants that."""
        library = confluent()
        first, self._position = self._position, -1
        lost = gone(part.topic, part.partition, first)
        if self._options.fail_on_data_loss:
            raise lost
        log.warning("%s", lost)
        try:
            place = library.TopicPartition(self._topic, self._partition)
            oldest, newest = self._consumer.get_watermark_offsets(place, PATIENCE)
        except library.KafkaException as exception:
            raise away(self._options.servers, str(self._words) or kafka_error(exception).str()) from None
        # Where the topic was made anew and is shorter, the next batch begins at its beginning.
        self._go_to(min(max(first, oldest), part.end) if first <= newest else part.end)


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
    settings = (tuple(sorted(options.consumer.items())), options.fail_on_data_loss, options.patience)
    key = (settings, part.topic, part.partition)
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
