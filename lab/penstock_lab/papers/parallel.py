"""Independent runs on all cores."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from penstock_lab.results import announce

T = TypeVar("T")
R = TypeVar("R")

#: Seconds between two words on progress.
TELL_EVERY = 15.0


def spread(function: Callable[[T], R], jobs: Sequence[T], least: int = 4) -> list[R]:
    """The results of a function for each job, in order; few jobs are not worth the processes they would need."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2 or len(jobs) < least:
        return [function(job) for job in jobs]
    with ProcessPoolExecutor(min(cores, len(jobs)), mp_context=get_context("spawn")) as pool:
        results, announced = [], time.monotonic()
        for result in pool.map(function, jobs):
            results.append(result)
            if time.monotonic() - announced > TELL_EVERY:
                announced = time.monotonic()
                announce(f"{len(results)} of {len(jobs)} runs done")
        return results
