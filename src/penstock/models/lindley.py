"""Trace-driven queues: what a FIFO queue does with exactly these arrivals and these service times."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.core.jit import jit

Floats = NDArray[np.float64]


def simulate_queue(gaps: ArrayLike, services: ArrayLike, servers: int = 1) -> Floats:
    """Response time of each tuple of a FIFO queue with ``servers`` servers that starts empty.

    ``gaps[i]`` is the time from arrival i-1 to arrival i. One server is Lindley's recursion
    W_{i+1} = max(0, W_i + S_i - X_{i+1}); several are Kiefer and Wolfowitz's.

    >>> simulate_queue([0.0, 1.0, 1.0], [3.0, 1.0, 1.0]).tolist()
    [3.0, 3.0, 3.0]
    """
    x, s = np.ascontiguousarray(gaps, dtype=np.float64), np.ascontiguousarray(services, dtype=np.float64)
    if x.shape != s.shape or x.ndim != 1:
        raise PenstockError(f"A queue needs one service time an arrival, not {s.size} for {x.size}.")
    if servers < 1:
        raise PenstockError(f"A queue has 1 server or more, not {servers}.")
    responses = np.empty(x.size)
    if servers == 1:
        _one_server(x, s, responses)
    else:
        _many_servers(x, s, np.zeros(servers), responses)
    return responses


@jit
def _one_server(gaps: Floats, services: Floats, responses: Floats) -> None:  # pragma: no cover - compiled
    work = 0.0
    for i in range(gaps.size):
        work = max(work - gaps[i], 0.0) + services[i]
        responses[i] = work


@jit
def _many_servers(
    gaps: Floats, services: Floats, work: Floats, responses: Floats
) -> None:  # pragma: no cover - compiled
    """``work`` is what each server still has to do, kept in rising order."""
    n = work.size
    for i in range(gaps.size):
        for k in range(n):
            work[k] = max(work[k] - gaps[i], 0.0)
        total = work[0] + services[i]
        responses[i] = total
        k = 1
        while k < n and work[k] < total:
            work[k - 1] = work[k]
            k += 1
        work[k - 1] = total
