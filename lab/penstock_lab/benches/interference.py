"""An attached query beside another load on the same machine (Elastic-PPQ 5.4): is the target kept, and by using more?

The other load is ``stress-ng`` on every second core, as in the paper, from the end of the warm-up on; where it is not
installed, plain processes that spin take the same cores.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock.spark.actuators.cpu_share import CpuShare
from penstock.spark.cluster import LocalCluster
from penstock_lab.benches import autoscale
from penstock_lab.results import ResultsPage, Table, announce

TARGET = 6.0


def run(quick: bool, folder: Path) -> ResultsPage:
    """The same rows alone and beside the other load; a quick look is beside it only."""
    report = ResultsPage(
        "Autoscaling beside another load",
        "penstock bench interference" + (" --quick" if quick else ""),
        quick=quick,
    )
    loads = _loads(15.0, warm=10.0) if quick else _loads(60.0, warm=autoscale.WARM)
    machines = {"alone": 0, "half the cores taken": max(1, (os.cpu_count() or 2) // 2)}
    if quick:
        del machines["alone"]
    work = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    found = {}
    try:
        np.save(work / "arrivals.npy", loads.arrivals)
        with LocalCluster(workers=2, cores=2, memory="2g") as cluster:
            for name, cores in machines.items():
                announce(f"{name}: {loads.arrivals[-1]:.0f} s of load")
                trial = autoscale._trial("Mpc", cluster.master, work, TARGET)
                # Rows that compute: waiting would not notice the other load.
                own = replace(trial, folder=str(work / name.replace(" ", "-")), row_cpu=6e-4, row_wait=0.0)
                with spinning(cores, after=loads.parts[0][1]):
                    found[name] = autoscale.measured(name, own, loads)[0][0]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rows = [(n, o.p95, f"{o.violations} of {o.slots}", o.core_seconds, o.changes) for n, o in found.items()]
    columns = ("machine", "P95 delay (s)", "violations", "core-seconds", "changes")
    report.tables.append(
        Table(
            loads.names[0],
            columns,
            rows,
            f"Target {TARGET:g} s; policy Mpc, 1 to 4 executors of half a core. The other load: "
            f"{' '.join(Path(word).name if i == 0 else word for i, word in enumerate(commands(1)[0]))}.",
        )
    )
    if not quick:
        _claims(report, found["alone"], found["half the cores taken"])
    return report


def _loads(seconds: float, warm: float) -> autoscale.Loads:
    """The first load after so many seconds of warm-up."""
    loads = autoscale.make_loads(seconds, rate=300.0)
    (name, begin, end), skipped = loads.parts[0], loads.parts[0][1] - warm
    kept = (loads.arrivals >= skipped) & (loads.arrivals < end)
    return autoscale.Loads(loads.arrivals[kept] - skipped, ((name, begin - skipped, end - skipped),))


def _claims(report: ResultsPage, alone: autoscale.AutoscaleResult, beside: autoscale.AutoscaleResult) -> None:
    report.claim(
        "the target is met beside the other load",
        f"P95 at most {TARGET:g} s",
        f"{beside.p95:.2f} s",
        beside.p95 <= TARGET,
    )
    report.claim(
        "by using more", "at least as many core-seconds as alone", f"{beside.core_seconds:.0f} against {alone.core_seconds:.0f}",
        beside.core_seconds >= alone.core_seconds,
    )  # fmt: skip


@contextmanager
def spinning(cores: int, after: float, share: float = 1.0) -> Iterator[None]:
    """So many processes that use a core each, or a ``share`` of it, from ``after`` seconds on; they end with the block."""
    processes: list[subprocess.Popen[bytes]] = []
    over = threading.Event()
    shares = CpuShare() if cores and share < 1.0 else None

    def begin() -> None:
        if not over.wait(after):
            processes.extend(subprocess.Popen(command) for command in commands(cores))
        if shares is not None:
            for process in processes:
                shares.set_share(f"other-{process.pid}", share)
                shares.add_tree(f"other-{process.pid}", process.pid)

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for process in processes:
            process.terminate()
            process.wait()
        if shares is not None:
            shares.close()
        time.sleep(0.1)


def commands(cores: int) -> list[list[str]]:
    """What keeps so many cores busy."""
    stress = shutil.which("stress-ng")
    if stress is None:
        return [[sys.executable, "-c", "while True: pass"]] * cores
    return [[stress, "--cpu", str(cores), "--cpu-method", "matrixprod", "--quiet"]] if cores else []
