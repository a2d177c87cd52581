"""``penstock bench kafka``: from topic to topic against a query by hand, and kills of driver and broker."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError, unknown
from penstock.spark.kafka.client import confluent
from penstock.testing.kafka import LocalBroker
from penstock_lab.benches.query_kills import commits_anew
from penstock_lab.judging import at_least
from penstock_lab.results import ResultsPage, Table, announce

PARTS = ("rate", "kills")
PARTITIONS = 4
#: Seconds after which a producer stops by itself; it is ended with the driver that it feeds.
LONGEST = 600


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    rate: int
    words: int
    warm_up: float
    seconds: float
    kills: int
    rows_to_kill_on: int


FULL = Sizes(rate=100_000, words=20_000, warm_up=15.0, seconds=30.0, kills=20, rows_to_kill_on=400_000)
QUICK = Sizes(rate=20_000, words=5_000, warm_up=8.0, seconds=5.0, kills=2, rows_to_kill_on=40_000)


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """Run all parts, or one."""
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    sizes = QUICK if quick else FULL
    command = "penstock bench kafka" + (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Kafka in and out", command)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch, LocalBroker() as broker:
        if part in (None, "rate"):
            _rates(report, broker, Path(scratch), sizes)
        if part in (None, "kills"):
            _kills(report, broker, Path(scratch), sizes)
    return report


def _rates(report: ResultsPage, broker: LocalBroker, scratch: Path, sizes: Sizes) -> None:
    rows = []
    for kind, label, rate in (
        ("skyline", "skyline of 8 attributes, windows of 1 s, to a topic", sizes.rate),
        ("by hand", "the same by hand: Spark's source and sink, collect_list, paretoset", sizes.rate),
        ("count", "running word count, to a topic and a Delta table", sizes.words),
    ):
        announce(f"{label}, {rate} rows/s offered")
        found = _measured(broker, scratch, kind, rate, sizes)
        rows.append((label, rate, found["rows_per_second"], found.get("p50"), found.get("p95")))
    columns = ("what", "offered rows/s", "taken rows/s", "answer lag P50 s", "answer lag P95 s")
    note = "Broker, producer and Spark share the machine. The lag is from the end of a window plus 0.5 s of slack to its delivery."
    shown = [[v if v is not None else "-" for v in row] for row in rows]
    report.tables.append(Table("Rates held", columns, shown, note))
    ours, hand = rows[0][2], rows[1][2]
    report.claim(
        f"{sizes.rate} rows/s of eight attributes are held",
        f"at least {0.97 * sizes.rate:.0f} rows/s",
        f"{ours:.0f}",
        at_least(ours, 0.97 * sizes.rate),
    )
    report.claim("more than the query by hand", "more", f"{ours:.0f} against {hand:.0f}", ours > hand)


def _measured(broker: LocalBroker, scratch: Path, kind: str, rate: int, sizes: Sizes) -> dict[str, Any]:
    name = kind.replace(" ", "-")
    spec = _spec(broker, scratch / name, kind, start="latest", warm_up=sizes.warm_up, seconds=sizes.seconds)
    driver = _driver(spec, scratch / name)
    words = "words" if kind == "count" else "points"
    arguments = [broker.servers, spec["topic"], words, rate, LONGEST, PARTITIONS]
    producer = subprocess.Popen(
        [sys.executable, "-m", "penstock_lab.benches.kafka_producer", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
    )
    said, _ = driver.communicate()
    producer.kill()
    producer.wait()
    try:
        found: dict[str, Any] = json.loads(said.decode().strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise PenstockError(
            f"The driver of part '{kind}' failed; run it again with --quick to see why."
        ) from None
    return found


def _kills(report: ResultsPage, broker: LocalBroker, scratch: Path, sizes: Sizes) -> None:
    """Kill driver or broker at random instants, then let the driver finish; compare what readers of committed messages see."""
    calm = _spec(
        broker, scratch / "calm", "skyline", start="earliest", drain=True, most=sizes.rows_to_kill_on // 40
    )
    rate = sizes.rows_to_kill_on / 10
    arguments = [broker.servers, calm["topic"], "points", rate, 10, PARTITIONS]
    subprocess.run(
        [sys.executable, "-m", "penstock_lab.benches.kafka_producer", *map(str, arguments)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    announce("an undisturbed run")
    _driver(calm, scratch / "calm").wait()
    killed = {**calm, "answers": broker.create("answers-killed", 2), "work": str(scratch / "killed")}
    draw, made = random.Random(5), Counter[str]()
    while made.total() < sizes.kills:
        driver = _driver(killed, scratch / "killed")
        if not commits_anew(driver, scratch / "killed" / "ck" / "penstock" / "commits"):
            break  # the topic was used up before the last kill
        time.sleep(draw.uniform(0.0, 1.0))
        if made.total() % 4 == 3:
            broker.kill()
            time.sleep(draw.uniform(0.0, 2.0))
            broker.start()
            made["broker"] += 1
            time.sleep(draw.uniform(0.0, 3.0))
        else:
            made["driver"] += 1
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        announce(f"kills so far: {dict(made)}")
    _driver(killed, scratch / "killed").wait()
    first, second = (_read(broker, spec["answers"]) for spec in (calm, killed))
    columns = (
        "kills of the driver",
        "of the broker",
        "answers undisturbed",
        "answers after the kills",
        "equal",
    )
    same = first == second and first.total() > 0
    row = (made["driver"], made["broker"], first.total(), second.total(), "yes" if same else "no")
    report.tables.append(Table("Kills", columns, [row]))
    report.claim(
        "readers of committed messages see what an undisturbed run gives",
        "equal",
        "equal" if same else "differs",
        same and made.total() > 0,
    )


def _spec(broker: LocalBroker, work: Path, kind: str, **more: Any) -> dict[str, Any]:
    work.mkdir(parents=True)
    topic = broker.create(f"in-{work.name}", PARTITIONS)
    answers = broker.create(f"answers-{work.name}", 2)
    place = {"servers": broker.servers, "topic": topic, "answers": answers, "work": str(work)}
    return {"kind": kind, **place, **more}


def _driver(spec: dict[str, Any], work: Path) -> "subprocess.Popen[bytes]":
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


def _read(broker: LocalBroker, topic: str) -> Counter[bytes]:
    """All committed messages of a topic."""
    library = confluent()
    consumer = library.Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([library.TopicPartition(topic, p, 0) for p in range(2)])
    left, found = {0, 1}, Counter[bytes]()
    while left:
        for message in consumer.consume(5_000, 0.5):
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().code() == library.KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    consumer.close()
    return found
