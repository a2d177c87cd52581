"""What a second core of this machine adds at most: the same work in processes that share nothing.

``python -m penstock_lab.benches.core_ceiling SECONDS`` works for so long on its core and prints how many rounds it did.
"""

import os
import subprocess
import sys
import time

import numpy as np

from penstock.preference import skyline

#: Rows and attributes of a round: about what a worker has of a pane, more than a core's own cache.
ROWS, DIMS = 200_000, 8


def ceiling(cores: int, seconds: float = 6.0) -> float:
    """How many times the work of one core so many cores do."""
    return sum(_rounds(cores, seconds)) / _rounds(1, seconds)[0]


def _rounds(processes: int, seconds: float) -> list[int]:
    command = [sys.executable, "-m", "penstock_lab.benches.core_ceiling", str(seconds)]
    begun = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE) for n in range(processes)]
    return [int(one.communicate()[0]) for one in begun]


def main(seconds: float, core: int) -> None:
    """Work for so long; the first second, in which loops are compiled, does not count."""
    os.sched_setaffinity(0, {core})
    points = np.random.default_rng(core).random((ROWS, DIMS))
    skyline(points)
    rounds, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        skyline(points + 0.0)
        rounds += 1
    print(rounds, flush=True)  # noqa: T201 - read by the parent


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
