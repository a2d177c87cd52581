"""Options of ``format("penstock-kafka")``: the words of Spark's own Kafka source, where both have them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.durations import microseconds
from penstock.core.errors import PenstockError, unknown
from penstock.spark.kafka.client import shown

EARLIEST, LATEST = "earliest", "latest"

_PLAIN = {
    name.lower(): name
    for name in ("subscribe", "startingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss", "patience")
}


@dataclass(frozen=True)
class KafkaOptions:
    """What to read, from where, how much at a time.

    >>> KafkaOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "trips"}).topics
    ('trips',)
    """

    servers: str
    topics: tuple[str, ...]
    #: ``earliest``, ``latest``, or offsets by topic and partition (-2: earliest, -1: latest).
    start: str | Mapping[str, Mapping[str, int]] = LATEST
    #: No batch has more messages; 0 for no limit.
    most: int = 0
    fail_on_data_loss: bool = True
    #: Seconds that a batch waits for brokers that do not answer.
    patience: float = 30.0
    #: Further settings of the client, as librdkafka spells them.
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "KafkaOptions":
        """Read the options of a source."""
        given, settings = {}, {}
        for option, text in options.items():
            if option.lower().startswith("kafka."):
                settings[option[6:].lower()] = text
            elif option.lower() in _PLAIN:
                given[_PLAIN[option.lower()]] = text
            else:
                raise unknown("option", option, [*_PLAIN.values(), "kafka.bootstrap.servers"])
        servers = settings.pop("bootstrap.servers", "")
        if not servers:
            raise PenstockError("Say where Kafka is: option('kafka.bootstrap.servers', 'HOST:PORT').")
        topics = tuple(t.strip() for t in given.get("subscribe", "").split(",") if t.strip())
        if not topics:
            raise PenstockError("Say which topics to read: option('subscribe', 'TOPIC,TOPIC').")
        return cls(
            servers,
            topics,
            _start(given.get("startingOffsets", LATEST)),
            _count(given.get("maxOffsetsPerTrigger", "0")),
            _flag(given.get("failOnDataLoss", "true")),
            microseconds(given.get("patience", "30 seconds"), "patience") / 1e6,
            settings,
        )

    @property
    def client(self) -> dict[str, Any]:
        """Settings of a client."""
        return {**self.settings, "bootstrap.servers": self.servers}

    @property
    def consumer(self) -> dict[str, Any]:
        """Settings of a client that reads; what the user set wins."""
        return {
            "group.id": "penstock",  # has to be there; nothing is ever committed to it
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": "32768",
            "fetch.wait.max.ms": "50",
            **self.client,
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
        }

    @property
    def committed_only(self) -> bool:
        """Whether messages of open and aborted transactions are left out."""
        return str(self.consumer["isolation.level"]) == "read_committed"

    def __repr__(self) -> str:
        return (
            f"KafkaOptions(servers={self.servers!r}, topics={self.topics!r}, settings={shown(self.settings)})"
        )


def _start(text: str) -> str | Mapping[str, Mapping[str, int]]:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    try:
        found = json.loads(text)
        return {t: {str(int(p)): int(n) for p, n in parts.items()} for t, parts in found.items()}
    except (ValueError, AttributeError, TypeError):
        raise PenstockError(
            f"Option 'startingOffsets' must be earliest, latest, or JSON such as {{\"topic\": {{\"0\": 23}}}}, not '{text}'."
        ) from None


def _count(text: str) -> int:
    if not text.strip().isdigit():
        raise PenstockError(
            f"Option 'maxOffsetsPerTrigger' must be a whole number, 0 for no limit, not '{text}'."
        )
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PenstockError(f"Option 'failOnDataLoss' must be true or false, not '{text}'.")
    return text.lower() == "true"
