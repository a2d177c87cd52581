"""Resident workers held to a share of a core each, so that a machine of two cores has more than two of them.

A worker is a fork of the Python daemon that Spark starts; each gets a control group of its own as soon as it is seen.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.spark.actuators.cpu_share import CpuShare
from penstock.spark.actuators.processes import command_line, tree

#: Microseconds of a scheduling period: short, so that a worker is slow rather than stopped for long.
PERIOD_US = 10_000
DAEMON = "penstock.spark.runtime.daemon"


@contextmanager
def held_to(cores: float) -> Iterator[None]:
    """Hold every worker of this process's Spark to so many cores, those to come as well; 0: no limit."""
    if not cores:
        yield
        return
    over = threading.Event()
    with CpuShare() as shares:

        def watch() -> None:
            daemons: list[int] = []
            seen: set[int] = set()
            while not over.wait(0.05):
                daemons = daemons or [p for p in tree(os.getpid()) if DAEMON in command_line(p)][:1]
                for pid in {child for daemon in daemons for child in _children(daemon)} - seen:
                    group = shares.group(f"worker-{pid}")
                    group.set_quota(cores, PERIOD_US)
                    group.add(pid)
                    seen.add(pid)

        watcher = threading.Thread(target=watch, name="worker shares", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
