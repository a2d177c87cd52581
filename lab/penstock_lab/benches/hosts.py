"""``penstock bench hosts``: three hosts (network namespaces), a checkpoint in an S3 server, cuts and kills."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError, unknown
from penstock.spark.cluster import LocalCluster
from penstock.testing.s3 import LocalS3
from penstock_lab.network_hosts import Hosts
from penstock_lab.results import ResultsPage, Table, announce

PARTS = ("query", "flow")
#: The driver, the master and the S3 server are on the first host, workers on the others.
DRIVER, FIRST, SECOND = 0, 1, 2


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    seconds: int
    cut: float


FULL, QUICK = Sizes(seconds=60, cut=20.0), Sizes(seconds=20, cut=5.0)


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """Run all parts, or one."""
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    sizes = QUICK if quick else FULL
    command = "penstock bench hosts" + (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Several hosts", command)
    rows = []
    for kind in PARTS if part is None else (part,):
        for disturbed in (False, True):
            announce(f"{kind}, {'a host cut off and one killed' if disturbed else 'undisturbed'}")
            rows.append(_row(kind, disturbed, _run(kind, disturbed, sizes)))
    columns = ("what", "disturbed by", "rows", "batches", "longest batch s", "hosts", "bytes a row", "equal")
    note = (
        "Hosts are network namespaces of one machine: driver, master and S3 server on one, a worker of Spark's on each of two others. "
        "Bytes are all that the three sent, state and results included."
    )
    report.tables.append(Table("Runs", columns, rows, note))
    for kind, disturbance, *_, equal in rows:
        report.claim(
            f"the output of the {kind} is right ({disturbance or 'undisturbed'})",
            "equal",
            equal,
            equal == "yes",
        )
    return report


def _row(kind: str, disturbed: bool, found: dict[str, Any]) -> tuple[Any, ...]:
    what = f"a cut of {found['cut']:.0f} s, a host killed" if disturbed else ""
    size = found["bytes"] / found["rows"]
    equal = "yes" if found["equal"] else "no"
    return kind, what, found["rows"], found["batches"], found["longest"], found["hosts"], size, equal


def _run(kind: str, disturbed: bool, sizes: Sizes) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch,
        Hosts(3) as hosts,
    ):
        store = LocalS3(host=hosts[DRIVER].address)
        cluster = LocalCluster(2, 2, "2g", hosts=[hosts[n] for n in (DRIVER, FIRST, SECOND)])
        try:
            store.start(hosts[DRIVER].prefix)
            cluster.start()
            driver = _driver(kind, Path(scratch), hosts, store, cluster, sizes)
            return _watched(driver, hosts, disturbed, sizes)
        finally:
            cluster.stop()
            store.stop()


def _driver(
    kind: str, scratch: Path, hosts: Hosts, store: LocalS3, cluster: LocalCluster, sizes: Sizes
) -> "subprocess.Popen[bytes]":
    here = hosts[DRIVER]
    stream = {
        "model": "poisson",
        "rate": 4000,
        "dims": 4,
        "keys": 200,
        "seconds": sizes.seconds,
        "rowsPerBatch": 2000,
    }
    address = {"spark.driver.host": here.address, "spark.driver.bindAddress": here.address}
    spec = {
        "kind": kind,
        "master": cluster.master,
        "base": f"{store.address}/{kind}",
        "stream": {name: str(value) for name, value in stream.items()},
        "config": {**cluster.session_config(executor_cores=2), **address},
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
                **store.environment,
                "SPARK_LOCAL_IP": here.address,
                "PENSTOCK_STATE_CACHE": f"{scratch}/cache",
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
    found: dict[str, Any] = {"batches": 0, "longest": 0.0, "hosts": 0, "cut": sizes.cut}
    assert driver.stdout is not None
    for line in driver.stdout:
        told = json.loads(line)
        if "equal" in told:
            found |= told
            break
        found["batches"] = told["batch"] + 1
        found["longest"] = max(found["longest"], told["seconds"])
        found["hosts"] = max(found["hosts"], told["hosts"])
        if disturbed and told["batch"] == 10:
            hosts.cut(FIRST)
            time.sleep(sizes.cut)
            hosts.heal(FIRST)
        if disturbed and told["batch"] == 20:
            _kill(hosts, SECOND)
    driver.wait()
    if "equal" not in found:
        raise PenstockError("The driver ended before its stream did; run it again with --quick to see why.")
    return found | {"bytes": _sent(hosts) - before}


def _sent(hosts: Hosts) -> int:
    return sum(hosts.sent(number) for number in (DRIVER, FIRST, SECOND))


def _kill(hosts: Hosts, number: int) -> None:
    """End everything on a host at once."""
    name = hosts[number].prefix[-1]
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True)
    for pid in map(int, listed.stdout.split()):
        os.kill(pid, signal.SIGKILL)
