"""``format("penstock-kafka")``: topics of Kafka, whose partitions the workers of a run read themselves.

The options are those of Spark's own Kafka source. Offsets are part of a run's commit, so a start with the same
checkpoint goes on exactly where the last one ended.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.kafka import fetching
from penstock.spark.kafka.fetching import OffsetRange, fetched
from penstock.spark.kafka.messages import SPARK_COLUMNS, fields_of, parsed, unparsed
from penstock.spark.kafka.offsets import Brokers, Offsets, TopicGoneError, behind, first_offsets, limited
from penstock.spark.kafka.options import KafkaOptions
from penstock.spark.runtime.source_away import SourceAwayError
from penstock.spark.sources.pacing import rows_allowed
from penstock.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    arrow_schema,
)

log = logging.getLogger(__name__)


class KafkaSource(DataSource):
    """Topics of Kafka as a stream.

    Without a schema the columns are those of Spark's own source. With one (``.schema("price double, ...")``), messages
    are JSON objects that are read by the workers (see :mod:`penstock.spark.kafka.messages`).
    """

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "penstock-kafka"

    def schema(self) -> str:
        """The columns where the user gave none."""
        return SPARK_COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads offsets on the driver and partitions in tasks."""
        return KafkaReader(KafkaOptions.parse(dict(self.options)), schema)


class PartOfTopic(InputPartition):
    """One part of a partition, for one task."""

    def __init__(self, part: OffsetRange) -> None:
        super().__init__(None)
        self.part = part


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream: what there is, what a batch takes, and the messages themselves."""

    def __init__(self, options: KafkaOptions, schema: StructType) -> None:
        self._options = options
        self._schema: pa.Schema = arrow_schema(schema, "UTC")
        names = [part.split()[0] for part in SPARK_COLUMNS.split(", ")]
        self._parse = self._schema.names != names
        if self._parse:
            fields_of(self._schema)  # refuses what cannot be read
        self._brokers: Brokers | None = None
        self._last: Offsets | None = None
        self._frozen: Offsets | None = None
        self._complained = False

    def initialOffset(self) -> Offsets:
        """Where a new run begins."""
        return first_offsets(self._ask(), self._options)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Back-pressure: ``maxOffsetsPerTrigger``."""
        return ReadMaxRows(self._options.most) if self._options.most else ReadAllAvailable()

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:
        """How far a batch goes; brokers that do not answer have nothing new."""
        start = self.initialOffset() if start is None else start  # older Sparks do not say
        end = self._known_end(start)
        most = rows_allowed(limit)
        return limited(start, end, 0 if most == float("inf") else int(most))

    def reportLatestOffset(self) -> Offsets | None:
        """How far the topics have come, whatever a batch may take."""
        return self._last

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is what there is."""
        self._frozen = self._ask().latest()

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """One task for each partition that has something new."""
        begin = self._begin(start, end)
        return [
            PartOfTopic(OffsetRange(topic, int(number), begin[topic][number], last))
            for topic, parts in end.items()
            for number, last in parts.items()
            if last > begin[topic][number]
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one part, in order."""
        assert isinstance(partition, PartOfTopic)
        make = parsed if self._parse else unparsed
        for messages in fetched(self._options, partition.part):
            yield make(messages, self._schema)

    def backlog(self, end: Offsets) -> int | None:
        """Messages that the topics have beyond ``end`` by now; of brokers that do not answer what is known of them."""
        with suppress(SourceAwayError, TopicGoneError):
            self._last = self._frozen or self._ask().latest()
        return None if self._last is None else behind(end, self._last)

    def commit(self, end: Offsets) -> None:
        """Nothing to do: offsets are the run's own."""

    def _ask(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self._options)
        return self._brokers

    def _known_end(self, start: Offsets) -> Offsets:
        if self._frozen is not None:
            self._last = self._frozen
            return self._frozen
        try:
            self._last = self._ask().latest()
            self._complained = False
        except SourceAwayError as error:
            self._complain(str(error))
            return start
        except TopicGoneError as error:
            if self._options.fail_on_data_loss:
                raise
            self._complain(str(error))
            return start
        return self._last

    def _begin(self, start: Offsets, end: Offsets) -> Offsets:
        """Where each partition really begins: what is new begins with its oldest message, what was deleted is not there."""
        places = [
            (t, p, start.get(t, {}).get(p), last) for t, parts in end.items() for p, last in parts.items()
        ]
        odd = any(first is None or first > last for _, _, first, last in places)
        # A consumer tells of messages that are gone anyway; only who goes on without them has to know before.
        earliest = self._ask().earliest() if odd or not self._options.fail_on_data_loss else {}
        begin: Offsets = {topic: {} for topic in end}
        for topic, number, first, last in places:
            oldest = earliest.get(topic, {}).get(number, 0)
            if first is not None and (first < oldest or first > last):
                self._lost(topic, number, first)
            begin[topic][number] = oldest if first is None or first > last else max(first, oldest)
        return begin

    def _lost(self, topic: str, number: str, first: int) -> None:
        error = fetching.gone(topic, int(number), first)
        if self._options.fail_on_data_loss:
            raise error
        log.warning("%s", error)

    def _complain(self, text: str) -> None:
        """Say it once, until things go well again."""
        if not self._complained:
            log.warning(text)
        self._complained = True

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need no connection of the driver's."""
        return {**self.__dict__, "_brokers": None}
