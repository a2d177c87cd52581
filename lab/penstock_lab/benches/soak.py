"""``penstock bench soak --minutes 30``: what grows while a query and a flow run side by side for long.

Memory of driver, JVM and Python workers, files and bytes of the checkpoints, outputs and journals are looked at every
few seconds. Half of the time is for warming up; what is then still growing is a leak.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.dataflow.running_figures import running_count
from penstock.picture import picture
from penstock.spark import session
from penstock_lab.results import ResultsPage, Table, announce

#: Tuples a second of each of the two streams, and their keys.
RATE, KEYS = 50_000, 50_000
#: A last quarter may be so much above the one before it: files are compacted and memory is collected now and then.
FLAT = 1.15
#: The process of the JVM keeps what its collector once took, up to the heap's limit: what is in use is judged instead.
UNJUDGED = ("jvm",)
#: At every so manieth look the JVM is asked to collect what is not in use.
COLLECT = 12

MEASURES = {
    "driver": "memory of the driver (MB)",
    "jvm": "memory of the JVM (MB)",
    "heap": "objects of the JVM after a collection (MB)",
    "workers": "memory of the Python workers (MB)",
    "query state": "checkpoint of the query (files)",
    "flow state": "checkpoint of the flow (files)",
    "query bytes": "checkpoint of the query (MB)",
    "flow bytes": "checkpoint of the flow (MB)",
    "staging": "files that wait (both)",
    "batch": "seconds of a batch of the query",
}


@ps.operator(keys="k", state={"n": int}, output={"k": int, "n": int}, ttl=("arrival", 20.0))
def count(rows: Any, state: Any, output: Any) -> None:
    """Number the tuples of each key, and give out each hundredth."""
    numbers = running_count(rows.slots, state["n"])
    chosen = numbers % 100 == 0
    output.emit({"k": rows["k"][chosen], "n": numbers[chosen]}, at=rows.positions[chosen])


def run(quick: bool, folder: Path, minutes: float = 30.0) -> ResultsPage:
    """Run for so long and look now and then."""
    seconds = 40.0 if quick else 60.0 * minutes
    page = ResultsPage("Soak: what grows", f"penstock bench soak --minutes {minutes:g}")
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as scratch:
        samples, totals = _soak(Path(scratch), seconds)
    if len(samples) < 8:
        page.claim("the runs lasted long enough to be judged", "8 looks", str(len(samples)), False)
        return page
    quarters = np.array_split(np.arange(len(samples)), 4)
    rows = []
    for name, words in MEASURES.items():
        values = np.array([s[name] for s in samples])
        medians = [float(np.nanmedian(values[q])) for q in quarters]
        rows.append((words, *medians))
        if not quick and name not in UNJUDGED:  # a few seconds are all warming up
            flat = medians[3] <= FLAT * max(medians[1], medians[2], 1e-9)
            measured = ", ".join(f"{m:.3g}" for m in medians[1:])
            page.claim(f"{words}: flat", f"last quarter within {FLAT:g} times the two before", measured, flat)
    rows.append(("output files (both)", *(float(samples[q[-1]]["outputs"]) for q in quarters)))
    rows.append(("journals (MB)", *(float(samples[q[-1]]["journals"]) for q in quarters)))
    note = f"Medians of the quarters of {samples[-1]['time']:.0f} s; output files and journals at the end of each. {totals}"
    page.tables.append(Table("What was there", ("measure", "first", "second", "third", "last"), rows, note))
    page.plots.append(_plot(samples, folder / "soak.png"))
    return page


def _soak(base: Path, seconds: float) -> tuple[list[dict[str, float]], str]:
    spark = session("local[8]", app="penstock bench soak", config={"spark.sql.shuffle.partitions": "2"})
    options: dict[str, Any] = {
        "model": "map2",
        "rate": RATE,
        "dispersion": 100,
        "dims": 3,
        "realtime": "true",
        "seed": 1,
    }

    def stream(seed: int) -> Any:
        return spark.readStream.format("penstock-traffic").options(**options | {"seed": seed}).load()

    query = ps.PreferenceQuery(
        ps.skyline_of(*(ps.minimize(f"a{i}") for i in range(3))),
        time="event_time",
        window="2 seconds",
        slide="1 second",
    )
    given: dict[str, Any] = {"trigger": "1 second", "gather": "20 seconds"}
    asked = query.start(stream(1), output=base / "q-out", checkpoint=base / "q", **given)
    flow = ps.Flow("soak")
    keyed = stream(2).selectExpr(f"cast(pmod(xxhash64(a0), {KEYS}) as bigint) as k", "event_time as arrival")
    flow.source("rows", keyed).through(count, name="count").sink("counts")
    flowing = flow.start(spark, output=base / "f-out", checkpoint=base / "f", replicas={"count": 2}, **given)
    samples: list[dict[str, float]] = []
    began = time.monotonic()
    try:
        while time.monotonic() - began < seconds:
            time.sleep(min(5.0, seconds / 20))
            for one in (asked, flowing):
                if not one.is_active:
                    one.await_termination()
                    raise RuntimeError("a run has ended")
            collect = len(samples) % (COLLECT if seconds > 600 else 1) == 0
            held = {"heap": _heap(spark) if collect else np.nan, "batch": _seconds(asked)}
            samples.append({"time": time.monotonic() - began, **_look(base), **held})
            if len(samples) % 12 == 0:
                announce(
                    f"{samples[-1]['time']:.0f} s: "
                    + ", ".join(f"{k} {v:.0f}" for k, v in samples[-1].items())
                )
        rows = asked.progress["totals"]["rows"], flowing.totals.rows
        engines = asked.engine, flowing.engine
    finally:
        for one in (asked, flowing):
            with contextlib.suppress(Exception):
                one.stop()
        spark.stop()
    took = (
        f"The query (engine {engines[0]}) took {rows[0]:,} rows, the flow (engine {engines[1]}) {rows[1]:,}"
    )
    return samples, f"{took}, at {RATE:,} a second each."


def _seconds(run: Any) -> float:
    return float(run.progress.get("seconds", np.nan))


def _heap(spark: Any) -> float:
    """What is still in use when the JVM has collected what is not; the process itself keeps what it once had."""
    spark._jvm.java.lang.System.gc()
    memory = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    return float(memory.getHeapMemoryUsage().getUsed()) / 1e6


def _look(base: Path) -> dict[str, float]:
    def files(*patterns: str) -> list[int]:
        sizes = []
        for pattern in patterns:
            for path in base.glob(pattern):
                with contextlib.suppress(OSError):
                    if path.is_file():
                        sizes.append(path.stat().st_size)
        return sizes

    memory = {"driver": _memory(os.getpid()), "jvm": 0.0, "workers": 0.0}
    for pid, command in _below(os.getpid()):
        memory["jvm" if b"java" in command[:200] else "workers"] += _memory(pid)
    return {
        **memory,
        "query state": len(files("q/**/*")),
        "flow state": len(files("f/**/*")),
        "query bytes": sum(files("q/penstock/**/*")) / 1e6,
        "flow bytes": sum(files("f/penstock/**/*")) / 1e6,
        "staging": len(files("*/**/_staging/*", "*/_staging/*")),
        "outputs": len(files("*-out/*.parquet", "*-out/*/*.parquet")),
        "journals": sum(files("*/journal*.jsonl")) / 1e6,
    }


def _memory(pid: int) -> float:
    """Megabytes of a process; pages that several share count in part for each."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1000
    return 0.0


def _below(root: int) -> list[tuple[int, bytes]]:
    found, seen = [], [root]
    while seen:
        for path in Path(f"/proc/{seen.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for pid in map(int, path.read_text().split()):
                    found.append((pid, Path(f"/proc/{pid}/cmdline").read_bytes()))
                    seen.append(pid)
    return found


def _plot(samples: Sequence[dict[str, float]], path: Path) -> Path:
    minutes = [s["time"] / 60 for s in samples]
    with picture(path, 2, 5, size=(16, 5), sharex=True) as axes:
        for axis, (name, words) in zip(axes.flat, MEASURES.items(), strict=True):
            seen = [(m, s[name]) for m, s in zip(minutes, samples, strict=True) if not np.isnan(s[name])]
            axis.plot(*zip(*seen, strict=True), linewidth=1)
            axis.set(title=words, ylim=(0, None))
        for axis in axes[-1]:
            axis.set_xlabel("minutes")
    return path
