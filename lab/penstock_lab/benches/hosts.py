"""``penstock bench hosts``: three hosts (network namespaces), a checkpoint in an S3 server, cuts and kills."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError, unknown
from penstock.spark.cluster import LocalCluster
from penstock.testing.s3 import LocalS3
from penstock_lab.judging import at_most
from penstock_lab.network_hosts import Hosts
from penstock_lab.results import ResultsPage, Table, announce

#: Part -> the programs that run in it, and what disturbs them one after the other.
PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "query": (("query", ""), ("query", "cut")),
    "flow": (("flow", ""), ("flow", "cut")),
    "executors": (("query", "executors"), ("flow", "executors")),
}
#: A quick look without a part: one run.
QUICK_RUN = {"query": PARTS["query"][:1]}
#: The driver, the master and the S3 server are on the first host, workers on the others.
DRIVER, FIRST, SECOND = 0, 1, 2
#: Attributes of the stream; a row is these, its key, its time and when it arrived: numbers of eight bytes.
DIMS = 4
ROW = 8 * (DIMS + 3)
#: What may cross the network for each row: once its bytes to the worker that needs it, once to the store as state and results, and
#: as much again for all else (frames, heartbeats, tasks, what is fetched anew after a host is lost).
TIMES = 3
#: The batch after which the first host is cut off, and the one after which the second is killed.
CUT, KILL = 10, 30
COLUMNS = (
    "what",
    "disturbed by",
    "rows",
    "batches",
    "longest batch s",
    "longest time between two commits s",
    "hosts",
    "executors",
    "bytes a row",
    "equal",
)


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    seconds: int
    cut: float

    @property
    def changes(self) -> dict[int, int]:
        """Batch -> executors wanted from there on: half of them go and come again."""
        batches = 2 * self.seconds
        return {batches // 8: 2, batches // 2: 4, 3 * batches // 4: 3}


FULL, QUICK = Sizes(seconds=45, cut=20.0), Sizes(seconds=20, cut=5.0)


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """Run all parts, or one; a quick look is at one run, or at a small version of a part."""
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    sizes = QUICK if quick else FULL
    command = "penstock bench hosts" + (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Several hosts", command, quick=quick)
    chosen = {part: PARTS[part]} if part is not None else QUICK_RUN if quick else PARTS
    for name, runs in chosen.items():
        _add(report, name, runs, sizes)
    return report


def _add(report: ResultsPage, part: str, runs: Sequence[tuple[str, str]], sizes: Sizes) -> None:
    rows = []
    for kind, disturbance in runs:
        words = _words(disturbance, sizes)
        announce(f"{kind}, {words}")
        found = _run(kind, disturbance, sizes)
        rows.append(_row(kind, words, found))
        equal = "yes" if found["equal"] else "no"
        report.claim(f"the output of the {kind} is right ({words})", "yes", equal, found["equal"])
        _claim_small(report, f"{kind}, {words}", found)
        # Where executors come and go, one host has enough for all workers, and Spark chooses.
        if disturbance != "executors":
            _claim_apart(report, f"{kind}, {words}", found)
        if disturbance == "cut":
            report.claim(
                f"the cut is felt by the {kind}",
                f"a batch of at least {sizes.cut:.0f} s",
                f"{found['after_cut']:.1f} s",
                found["after_cut"] >= sizes.cut,
            )
        if disturbance == "executors":
            few, many = min(found["executors"]), max(found["executors"])
            report.claim(
                f"executors come and go under the {kind}",
                "2 at least, 4 at most",
                f"{few} to {many}",
                (few, many) == (2, 4),
            )
    note = (
        "Hosts are network namespaces of one machine: driver, master and S3 server on one, a worker of Spark's on each of two others, each with a folder "
        "of its own for temporary files and copies of state. "
        "Bytes are all that the three sent, state and results included. A batch is timed from its first try to its commit; the trigger is 0.5 s."
    )
    report.tables.append(Table(f"Runs: {part}", COLUMNS, rows, note))


def _claim_small(report: ResultsPage, what: str, found: dict[str, Any]) -> None:
    """Little crosses the network."""
    each = found["bytes"] / found["rows"]
    report.claim(
        f"what crosses the network is kept small ({what})",
        f"at most {TIMES} times the {ROW} bytes of a row",
        f"{each:.1f} bytes a row",
        at_most(each, TIMES * ROW, "g"),
    )


def _claim_apart(report: ResultsPage, what: str, found: dict[str, Any]) -> None:
    """Hosts share no folder: each has copies of its own."""
    copies = found["copies"]
    report.claim(
        f"each worker's host has copies of state in a folder of its own ({what})",
        "files on both hosts",
        " and ".join(map(str, copies)),
        min(copies) > 0,
    )


def _words(disturbance: str, sizes: Sizes) -> str:
    return {
        "": "undisturbed",
        "cut": f"a host cut off for {sizes.cut:.0f} s, the other killed",
        "executors": "executors from 4 to 2, to 4, to 3",
    }[disturbance]


def _row(kind: str, words: str, found: dict[str, Any]) -> tuple[Any, ...]:
    few, many = min(found["executors"]), max(found["executors"])
    return (
        kind,
        words,
        found["rows"],
        found["batches"],
        found["longest"],
        found["silence"],
        found["hosts"],
        f"{few}" if few == many else f"{few} to {many}",
        found["bytes"] / found["rows"],
        "yes" if found["equal"] else "no",
    )


def _run(kind: str, disturbance: str, sizes: Sizes) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch,
        Hosts(3) as hosts,
    ):
        store = LocalS3(host=hosts[DRIVER].address)
        own = {n: _own_folders(Path(scratch), n) for n in (DRIVER, FIRST, SECOND)}
        cluster = LocalCluster(
            2, 2, "2g", hosts=[replace(hosts[n], environment=folders) for n, folders in own.items()]
        )
        try:
            store.start(hosts[DRIVER].prefix)
            cluster.start()
            config = cluster.session_config(executor_cores=1 if disturbance == "executors" else 2)
            told: dict[str, Any] = {"master": cluster.master, "config": config}
            told["base"] = f"{store.address}/{kind}"
            told["executors"] = sizes.changes if disturbance == "executors" else {}
            driver = _driver(kind, Path(scratch), hosts, {**store.environment, **own[DRIVER]}, told, sizes)
            found = _watched(driver, hosts, disturbance == "cut", sizes)
            return found | {"copies": [_copies(own[n]) for n in (FIRST, SECOND)]}
        finally:
            cluster.stop()
            store.stop()


def _own_folders(scratch: Path, number: int) -> dict[str, str]:
    """Folders of one host: namespaces share the machine's disk, so what would be on a host's own must be named."""
    temporary = scratch / f"host-{number}"
    temporary.mkdir()
    return {"TMPDIR": str(temporary), "PENSTOCK_STATE_CACHE": str(temporary / "copies")}


def _copies(folders: Mapping[str, str]) -> int:
    return sum(1 for _ in Path(folders["PENSTOCK_STATE_CACHE"]).glob("*/*"))


def _driver(
    kind: str,
    scratch: Path,
    hosts: Hosts,
    environment: Mapping[str, str],
    told: dict[str, Any],
    sizes: Sizes,
) -> "subprocess.Popen[bytes]":
    here = hosts[DRIVER]
    stream = {
        "model": "poisson",
        "rate": 4000,
        "dims": DIMS,
        "keys": 200,
        "seconds": sizes.seconds,
        "rowsPerBatch": 2000,
    }
    address = {"spark.driver.host": here.address, "spark.driver.bindAddress": here.address}
    spec = {
        **told,
        "kind": kind,
        "stream": {name: str(value) for name, value in stream.items()},
        "config": {**told["config"], **address},
    }
    (scratch / "spec.json").write_text(json.dumps(spec))
    with (scratch / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [
                *here.prefix,
                sys.executable,
                "-m",
                "penstock_lab.benches.hosts_driver",
                str(scratch / "spec.json"),
            ],
            env={
                **os.environ,
                **environment,
                "SPARK_LOCAL_IP": here.address,
            },
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=log,
        )


def _watched(
    driver: "subprocess.Popen[bytes]", hosts: Hosts, disturbed: bool, sizes: Sizes
) -> dict[str, Any]:
    """Follow a run to its end; disturb it on the way: a host cut off and back, then the other one killed."""
    before = _sent(hosts)
    found: dict[str, Any] = {"batches": 0, "longest": 0.0, "silence": 0.0, "hosts": 0, "executors": []}
    found["after_cut"] = 0.0  # the longest batch since the cut: the first of a run may be long by itself
    due = [(CUT, lambda: _cut(hosts, sizes.cut)), (KILL, lambda: _kill(hosts, SECOND))] if disturbed else []
    last = inf
    assert driver.stdout is not None
    for line in driver.stdout:
        told = json.loads(line)
        if "equal" in told:
            found |= told
            break
        found["batches"] = told["batch"] + 1
        for name, value in (
            ("longest", told["seconds"]),
            ("silence", told["at"] - last),
            ("hosts", told["hosts"]),
            ("after_cut", told["seconds"] if disturbed and len(due) < 2 else 0.0),
        ):
            found[name] = max(found[name], value)
        found["executors"].append(told["executors"])
        last = told["at"]
        if due and told["batch"] >= due[0][0]:
            due.pop(0)[1]()
    driver.wait()
    if "equal" not in found or due:
        raise PenstockError("The driver ended before its stream did; run it again with --quick to see why.")
    return found | {"bytes": _sent(hosts) - before}


def _cut(hosts: Hosts, seconds: float) -> None:
    """Take the first host off the network for a while."""
    hosts.cut(FIRST)
    time.sleep(seconds)
    hosts.heal(FIRST)


def _sent(hosts: Hosts) -> int:
    return sum(hosts.sent(number) for number in (DRIVER, FIRST, SECOND))


def _kill(hosts: Hosts, number: int) -> None:
    """End everything on a host at once."""
    name = hosts[number].prefix[-1]
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True)
    for pid in map(int, listed.stdout.split()):
        os.kill(pid, signal.SIGKILL)
