"""Independent runs on all cores."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def spread(function: Callable[[T], R], jobs: Sequence[T], least: int = 4) -> list[R]:
    """The results of a function for each job, in order; few jobs are not worth the processes they would need."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2 or len(jobs) < least:
        return [function(job) for job in jobs]
    with ProcessPoolExecutor(min(cores, len(jobs)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, jobs))
