"""Processes of ``penstock bench kafka``: producers, drivers, and readers of committed messages."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.kafka.client import confluent
from penstock.testing.kafka import LocalBroker
from penstock_lab.cell_runs import RUNS

PARTITIONS = 4
#: Partitions of topics for answers.
ANSWERS = 2
#: Seconds after which a producer stops by itself; it is ended with the driver that it feeds.
LONGEST = 600


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    runs: int
    rate: int
    words: int
    warm_up: float
    seconds: float
    lives: int
    rows_to_kill_on: int
    backlog: int
    base: int


FULL = Sizes(
    runs=RUNS,
    rate=100_000,
    words=20_000,
    warm_up=15.0,
    seconds=30.0,
    lives=5,
    rows_to_kill_on=600_000,
    backlog=1_000_000,
    base=4_000,
)
QUICK = Sizes(
    runs=1,
    rate=20_000,
    words=5_000,
    warm_up=8.0,
    seconds=5.0,
    lives=1,
    rows_to_kill_on=40_000,
    backlog=200_000,
    base=2_000,
)


@dataclass(frozen=True)
class Setting:
    """Where a part runs."""

    broker: LocalBroker
    scratch: Path
    sizes: Sizes
    #: Where pictures and journals go.
    folder: Path


def specified(setting: Setting, name: str, kind: str, **more: Any) -> dict[str, Any]:
    """What a driver is told: topics and a folder of its own, and what else is given."""
    work = setting.scratch / name
    work.mkdir(parents=True)
    broker = setting.broker
    topic = broker.create(f"in-{name}", PARTITIONS)
    answers = broker.create(f"answers-{name}", ANSWERS)
    place = {"servers": broker.servers, "topic": topic, "answers": answers, "work": str(work)}
    return {"kind": kind, **place, **more}


def driver(spec: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """A driver in a process group of its own; it says its figures on its last line."""
    work = Path(spec["work"])
    work.mkdir(parents=True, exist_ok=True)
    file = work / "spec.json"
    file.write_text(json.dumps(spec))
    with (work / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock_lab.benches.kafka_driver", str(file)],
            start_new_session=True,
            stdout=subprocess.PIPE if "seconds" in spec else subprocess.DEVNULL,
            stderr=log,
        )


def figures_of(process: "subprocess.Popen[bytes]", spec: dict[str, Any]) -> dict[str, Any]:
    """Wait for a driver's figures."""
    said, _ = process.communicate()
    try:
        found: dict[str, Any] = json.loads(said.decode().strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = (Path(spec["work"]) / "driver.log").read_text(errors="replace").strip().splitlines()[-1:]
        raise PenstockError(f"The driver '{spec['kind']}' failed ({''.join(last)}); run it again.") from None
    return found


@contextmanager
def producer(spec: dict[str, Any], kind: str, rate: float, seconds: float = LONGEST) -> Iterator[Any]:
    """A producer that sends at a rate; it is ended on leaving where it has not ended by itself."""
    arguments = [spec["servers"], spec["topic"], kind, rate, seconds, spec.get("partitions", PARTITIONS)]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock_lab.benches.kafka_producer", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class AnswerReader(threading.Thread):
    """A reader of committed messages, who notes when the last answer to each moment came."""

    def __init__(self, spec: dict[str, Any], field: str) -> None:
        super().__init__(name="answers", daemon=True)
        self._spec, self._field = spec, field
        self._closed = threading.Event()
        self.latest: dict[str, float] = {}

    def run(self) -> None:
        """Read until closed."""
        consumer = _reader(self._spec["servers"], self._spec["answers"])
        while not self._closed.is_set():
            got = consumer.consume(5_000, 0.05)
            now = time.time()
            for message in got:
                if message.error() is None:
                    self.latest[json.loads(message.value())[self._field]] = now
        consumer.close()

    def lags(self, since: float, until: float) -> list[float]:
        """Seconds from a moment to its last answer, for answers that came between two times."""
        self._closed.set()
        self.join()
        return [
            received - datetime.fromisoformat(moment).timestamp()
            for moment, received in self.latest.items()
            if since <= received <= until
        ]


def committed(broker: LocalBroker, topic: str) -> Counter[bytes]:
    """All committed messages of a topic."""
    codes = confluent().KafkaError
    consumer = _reader(broker.servers, topic)
    left, found = set(range(ANSWERS)), Counter[bytes]()
    while left:
        for message in consumer.consume(5_000, 0.5):
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().code() == codes._PARTITION_EOF:
                left.discard(message.partition())
    consumer.close()
    return found


def _reader(servers: str, topic: str) -> Any:
    library = confluent()
    settings = {
        "bootstrap.servers": servers,
        "group.id": "bench",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = library.Consumer(settings)
    consumer.assign([library.TopicPartition(topic, p, 0) for p in range(ANSWERS)])
    return consumer
