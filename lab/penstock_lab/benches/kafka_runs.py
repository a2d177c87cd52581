"""Processes of ``penstock bench kafka``: producers and drivers, and how much is run."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError
from penstock.testing.kafka import LocalBroker
from penstock.testing.processes import die_with_parent
from penstock_lab.benches.kafka_readers import ANSWERS
from penstock_lab.cell_runs import RUNS

PARTITIONS = 4
#: Seconds after which a producer stops by itself; it is ended with the driver that it feeds.
LONGEST = 600


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    runs: int
    rate: int
    #: Rates of words that are tried, until one is held.
    words: tuple[int, ...]
    warm_up: float
    seconds: float
    lives: int
    rows_to_kill_on: int
    backlog: int
    base: int


FULL = Sizes(
    runs=RUNS,
    rate=100_000,
    words=(100_000, 50_000, 20_000),
    warm_up=15.0,
    seconds=30.0,
    lives=10,
    rows_to_kill_on=600_000,
    backlog=1_000_000,
    base=4_000,
)
QUICK = Sizes(
    runs=1,
    rate=20_000,
    words=(5_000,),
    warm_up=2.0,
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
    #: Where the page, its pictures and the runs that are kept go.
    folder: Path

    @property
    def quick(self) -> bool:
        """Whether this is a look only: such a run is too small to be kept or to judge rates by."""
        return self.sizes.runs < RUNS

    @property
    def kept(self) -> Path:
        """Where runs, journals and pictures are kept; those of a look go with it."""
        return self.scratch if self.quick else self.folder


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
            preexec_fn=die_with_parent,
            stdout=subprocess.PIPE if "seconds" in spec else subprocess.DEVNULL,
            stderr=log,
        )


def figures_of(process: "subprocess.Popen[bytes]", spec: dict[str, Any]) -> dict[str, Any]:
    """Wait for a driver's figures."""
    said, _ = process.communicate()
    try:
        found: dict[str, Any] = json.loads(said.decode().strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise PenstockError(f"The driver '{spec['kind']}' failed ({_why(spec)}); run it again.") from None
    return found


def _why(spec: dict[str, Any]) -> str:
    """The error in a driver's log, or else its last line."""
    lines = (Path(spec["work"]) / "driver.log").read_text(errors="replace").strip().splitlines() or [""]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])


@contextmanager
def producer(
    spec: dict[str, Any], kind: str, rate: float, seconds: float = LONGEST, spoilt: int = 0
) -> Iterator[Any]:
    """A producer that sends at a rate; it is ended on leaving where it has not ended by itself.

    Of so many messages (``spoilt``) one is a minute late and one cannot be parsed.
    """
    parts = spec.get("partitions", PARTITIONS)
    arguments = [spec["servers"], spec["topic"], kind, rate, seconds, parts, spoilt]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock_lab.benches.kafka_producer", *map(str, arguments)],
        preexec_fn=die_with_parent,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
