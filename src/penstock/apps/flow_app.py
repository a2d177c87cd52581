"""Start a flow as an application: for some seconds, until its source is used up, or until Ctrl-C."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from penstock.apps.own_data import is_topic
from penstock.apps.summary import Option
from penstock.core.control_quality import ControlQuality, figures
from penstock.core.errors import PenstockError, unknown
from penstock.core.metrics import Metric

#: Options that all applications of this kind have.
OPTIONS: Mapping[str, Option] = {
    "source": Option("synthetic", "synthetic, or real: recorded data of the folder PENSTOCK_DATA"),
    "input": Option(
        "",
        "your own data, a file, a folder or kafka://HOST:PORT/TOPIC, instead of the source; see docs/dataflow.md",
    ),
    "rate": Option("20000", "rows a second of the synthetic source"),
    "rows": Option("200000", "rows of the recorded data to play, 0 for all"),
    "replicas": Option("2", "replicas to start with for every region that can have several"),
    "policy": Option(
        "none",
        "who adapts the flow: none, mpc (replicas, routing), organic (replicas, pipelines), mead or threshold (CPU shares)",
    ),
    "target": Option("3", "response in seconds that a policy with a target is to keep"),
    "period": Option("2", "seconds between two decisions of the policy"),
    "trigger": Option("1 second", "how often a micro-batch starts"),
    "master": Option("local[*]", "Spark master"),
    "page": Option("", "address of the live page, such as 127.0.0.1:8765"),
    "checkpoint": Option("", "checkpoint folder, which also keeps the journal; a temporary one by default"),
}


#: Seconds that the first batch may take before the clock starts anyway.
PATIENCE = 60.0


@dataclass
class Ended:
    """What a run came to."""

    seconds: float
    rows: int
    results: int
    dead: int
    batches: int
    plan: Mapping[str, int]
    cpu: Mapping[str, float]
    #: Rows of the input, where it has an end.
    expected: int | None = None
    #: What the journal tells of the policy, where there was one, and what it was held to.
    control: ControlQuality | None = None
    target: float = nan
    #: Rows of the runs before with the same checkpoint, which ``rows`` has too.
    rows_before: int = 0

    @property
    def notes(self) -> list[str]:
        """What a reader must know: whether the input was worked through, what a policy came to."""
        said = []
        if self.rows_before:
            said.append(
                f"Went on from a checkpoint: rows, results, put_aside and batches count from its first start; {self.rows_before:,} "
                "rows were worked through before this run."
            )
        if self.expected is not None and self.rows < self.expected:
            said.append(
                f"NOT ALL: {self.rows:,} of {self.expected:,} rows were worked through before time was up."
            )
        return said if self.control is None else [*said, self._controlled]

    @property
    def _controlled(self) -> str:
        assert self.control is not None
        c = self.control
        late = "" if isnan(c.violation_share) else f" ({c.violation_share:.0%} of the batches above it)"
        return (
            f"Control: latency {c.latency_mean:.2f} s (95th percentile {c.latency_p95:.2f} s), target {self.target:g} s{late}; "
            f"{c.resource_seconds:.0f} core-seconds, {c.reconfigurations} reconfigurations, {c.rebalances} rebalances."
        )

    @property
    def figures(self) -> dict[str, Any]:
        """Figures for a summary."""
        return (
            {
                "seconds": round(self.seconds, 1),
                "rows": self.rows,
                **({} if self.expected is None else {"rows_expected": self.expected}),
                "results": self.results,
                "put_aside": self.dead,
                "batches": self.batches,
                "rows_a_second": round((self.rows - self.rows_before) / self.seconds) if self.seconds else 0,
                "replicas": ", ".join(f"{region} {n}" for region, n in self.plan.items()),
            }
            | (
                {"cpu": ", ".join(f"{region} {share:.0%}" for region, share in self.cpu.items())}
                if self.cpu
                else {}
            )
            | self._control_figures
        )

    @property
    def _control_figures(self) -> dict[str, Any]:
        c = self.control
        if c is None:
            return {}
        return {
            "latency_mean": round(c.latency_mean, 3),
            "latency_p95": round(c.latency_p95, 3),
            "core_seconds": round(c.resource_seconds, 1),
            "reconfigurations": c.reconfigurations,
        }


#: Makes a flow from its sources' frames: called with the session and a scratch folder.
Builder = Callable[[Any, Path], Any]


def ends(options: Mapping[str, str]) -> bool:
    """Whether the application's input has an end."""
    if options.get("input"):
        return not is_topic(options["input"])
    return options.get("source") == "real"


def checked(
    options: Mapping[str, str], against: str, right: Callable[[], bool], before: int = 0
) -> tuple[bool | None, str]:
    """Whether the results are those of a plain loop, and that in words; None where nobody can tell.

    The input of a topic cannot be read twice, and of runs ``before``, with so many rows, the results are not here.
    """
    if is_topic(options["input"]):
        return None, "Not checked: a topic is read only once."
    if before:
        return None, "Not checked: the run went on from a checkpoint, and has its own results only."
    equal = right()
    return equal, f"Checked against {against}: " + ("equal." if equal else "NOT EQUAL.")


def run_app(
    build: Builder, seconds: float, options: Mapping[str, str], rows: Callable[[], int] | None = None
) -> Ended:
    """Start the flow that ``build`` makes and wait for its end: of the input's ``rows``, or of the time."""
    from penstock.spark import running, session

    policy, target, period = _policy(options), seconds_of(options, "target"), seconds_of(options, "period")
    replicas = whole(options, "replicas")
    whole(options, "rate"), whole(options, "rows", 0)  # what is no number is told before Spark starts
    if options["source"] not in ("synthetic", "real"):
        raise unknown("source of an application", options["source"], ["synthetic", "real"])
    _refuse_second_reading(options)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-") as scratch,
        running(session(options["master"])) as spark,
    ):
        flow = build(spark, Path(scratch))
        expected = rows() if rows is not None and ends(options) else None
        checkpoint = options["checkpoint"] or str(Path(scratch) / "checkpoint")
        run = flow.start(
            spark,
            checkpoint=checkpoint,
            trigger=options["trigger"],
            available_now=ends(options),
            replicas=_replicas(flow, replicas),
            policy=policy,
            period=period,
            cpu={} if _shares(options) else None,
            page=options["page"] or None,
        )
        tell_page(run)
        started = time.monotonic()
        try:
            started = _first_batch(run, started + PATIENCE, run.totals_before.rows)
            _wait(run, seconds)
        except KeyboardInterrupt:
            pass
        finally:
            if run.is_active:
                run.stop()
        elapsed = time.monotonic() - started
        totals = run.totals
        plan = {r.name: run.plan.regions[r.name].replicas for r in run.regions if r.scales}
        control = None if policy is None else _control(checkpoint, target)
        return Ended(
            elapsed,
            totals.rows,
            totals.results,
            totals.dead,
            totals.batches,
            plan,
            run.cpu,
            expected,
            control,
            target,
            run.totals_before.rows,
        )


def _refuse_second_reading(options: Mapping[str, str]) -> None:
    """An input that ends is read from its beginning by each run: onto what a checkpoint has, it would count double."""
    from penstock.spark.runtime.locations import location

    checkpoint = options["checkpoint"]
    if not checkpoint or not ends(options):
        return
    if next(iter((location(checkpoint) / "penstock" / "commits").glob("*.json")), None) is not None:
        raise PenstockError(
            f"The checkpoint '{checkpoint}' has results of a run before, and this one reads its input from the beginning, so "
            "that rows would count double; name a new folder with --checkpoint, or leave it out."
        )


def _control(checkpoint: str, target: float) -> ControlQuality | None:
    """What the journal of a run tells of its policy; None where it is not in a file."""
    journal = Path(checkpoint) / "journal.jsonl"
    return figures(journal, Metric.LATENCY_MEAN, target) if journal.exists() else None


def tell_page(run: Any) -> None:
    """Say where the page of a run is, where it has one."""
    if run.page_address:
        Console(stderr=True, soft_wrap=True).print(f"page: {run.page_address}", markup=False, highlight=False)


def _first_batch(run: Any, until: float, before: int = 0) -> float:
    """Wait for the first rows, whose batch loads and compiles everything; time counts from its end."""
    while time.monotonic() < until and run.totals.rows == before and not run.await_termination(0.1):
        pass
    return time.monotonic()


def _wait(run: Any, seconds: float) -> None:
    """Until time is up, or the run has worked its input through and its sinks have all of it, however long a batch takes."""
    end = time.monotonic() + (seconds or float("inf"))
    while time.monotonic() < end:
        if run.await_termination(min(0.5, max(0.05, end - time.monotonic()))):
            return


def _replicas(flow: Any, wanted: int) -> dict[str, int]:
    from penstock.dataflow.regions import find_regions

    return {r.name: wanted for r in find_regions(flow) if r.scales}


def _policy(options: Mapping[str, str]) -> Any:
    if options["policy"] == "none":
        return None
    from penstock.policies.catalog import policy_named
    from penstock.policies.surroundings import PlantKind, Surroundings

    kind = PlantKind.SHARES if _shares(options) else PlantKind.REPLICAS
    return policy_named(options["policy"], Surroundings(kind, (1, 4), seconds_of(options, "target")))


def _shares(options: Mapping[str, str]) -> bool:
    """Whether the policy sets CPU shares rather than replicas."""
    from penstock.policies.catalog import shares_cpu

    return options["policy"] != "none" and shares_cpu(options["policy"])


def seconds_of(options: Mapping[str, str], name: str) -> float:
    """An option that is a number of seconds."""
    try:
        value = float(options[name])
    except ValueError:
        value = 0.0
    if not 0 < value < 3600:
        raise PenstockError(f"--{name} must be a number of seconds above 0, not '{options[name]}'.")
    return value


def whole(options: Mapping[str, str], name: str, least: int = 1) -> int:
    """An option that is a whole number."""
    try:
        value = int(options[name])
    except ValueError:
        raise PenstockError(f"--{name} must be a whole number, not '{options[name]}'.") from None
    if value < least:
        raise PenstockError(f"--{name} must be at least {least}, not {value}.")
    return value


def recorded(name: str) -> Path:
    """A file of recorded data, or one sentence on how to get at it."""
    folder = os.environ.get("PENSTOCK_DATA")
    path = Path(folder or ".") / name
    if folder is None or not os.access(path, os.R_OK):
        raise PenstockError(
            f"The recorded data '{name}' is not there; set PENSTOCK_DATA to the folder that has it, or use --source synthetic."
        )
    return path


def pieces(table: pa.Table, size: int) -> list[pa.Table]:
    """A table in parts of so many rows."""
    return [table.slice(begin, size) for begin in range(0, table.num_rows, size)]


class Collected:
    """A sink on the driver that keeps what it gets, batch by batch; a batch given twice counts once."""

    def __init__(self) -> None:
        self._tables: dict[int, pa.Table] = {}

    def __call__(self, frame: Any, batch_id: int) -> None:
        """Take the rows of a batch, a DataFrame."""
        self._tables[batch_id] = frame.toArrow()

    @property
    def table(self) -> pa.Table | None:
        """All rows in order of their batches; None if there were none."""
        tables = [self._tables[b] for b in sorted(self._tables)]
        return pa.concat_tables(tables) if tables else None


class Largest:
    """A sink on the driver that keeps the largest count of each name: counts never fall, so it is the last one."""

    def __init__(self, name: str, count: str) -> None:
        self._name, self._count = name, count
        self.counts: dict[str, int] = {}

    def __call__(self, frame: Any, batch_id: int) -> None:
        """Take a batch."""
        table = frame.toArrow()
        for name, n in zip(table[self._name].to_pylist(), table[self._count].to_pylist(), strict=True):
            self.counts[name] = max(n, self.counts.get(name, 0))
