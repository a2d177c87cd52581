"""The recursion of the micro-batch queue: over counts per slot, and over the arrivals of a trace."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.core.jit import jit

Floats = NDArray[np.float64]

#: Response times fall into logarithmic bins from 1/1000 of a trigger to a million triggers, about 1 % wide.
BINS = 2048
_LOW, _HIGH = np.log(1e-3), np.log(1e6)
_POINTS = 4


def bin_edges(trigger: float) -> Floats:
    """Edges of the response bins in seconds, the first one at zero."""
    edges = trigger * np.exp(np.linspace(_LOW, _HIGH, BINS + 1))
    edges[0] = 0.0
    return np.asarray(edges, dtype=np.float64)


@jit
def run_batches(
    cumulated: Floats,
    slot: float,
    trigger: float,
    overhead: float,
    per_tuple: float,
    sums: Floats,
    weights: Floats,
    bins: Floats,
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Late batches, batches and their total length; fills sums and counts of the responses by stretch and by bin.

    Within a slot the arrivals are spread evenly.
    """
    slots = cumulated.size - 1
    end, groups, scale = slots * slot, sums.size, bins.size / (_HIGH - _LOW)
    late, batches, busy = 0, 0, 0.0
    previous, start = 0.0, trigger
    while start <= end:
        count = _until(cumulated, slot, start) - _until(cumulated, slot, previous)
        cost = overhead + count * per_tuple if count > 0.0 else 0.0
        finish = start + cost
        boundary = (np.floor(start / trigger + 1e-9) + 1.0) * trigger
        if count > 0.0:
            batches, busy, late = batches + 1, busy + cost, late + (finish > boundary)
            group = min(int(start / end * groups), groups - 1)
            for k in range(int(previous / slot), min(int(np.ceil(start / slot)), slots)):
                low, high = max(previous, k * slot), min(start, (k + 1) * slot)
                share = (cumulated[k + 1] - cumulated[k]) * (high - low) / slot
                if share <= 0.0:
                    continue
                sums[group] += share * (finish - 0.5 * (low + high))
                weights[group] += share
                for point in range(_POINTS):
                    response = finish - low - (high - low) * (point + 0.5) / _POINTS
                    index = int((np.log(max(response, 1e-300) / trigger) - _LOW) * scale)
                    bins[min(max(index, 0), bins.size - 1)] += share / _POINTS
        previous, start = start, max(finish, boundary)
    return late, batches, busy


@jit
def _until(cumulated: Floats, slot: float, time: float) -> float:  # pragma: no cover - compiled
    position = time / slot
    k = min(int(position), cumulated.size - 2)
    return float(cumulated[k] + (cumulated[k + 1] - cumulated[k]) * min(position - k, 1.0))


def simulate_microbatch(
    times: ArrayLike, trigger: float, overhead: float, per_tuple: float, workers: float = 1.0
) -> Floats:
    """Response time of each tuple of a trace in such a query: the exact answer for exactly these arrivals.

    >>> simulate_microbatch([0.5, 1.5], trigger=1.0, overhead=0.25, per_tuple=0.25).tolist()
    [1.0, 1.0]
    """
    arrivals = np.ascontiguousarray(times, dtype=np.float64)
    if arrivals.ndim != 1 or not trigger > 0.0 or not workers > 0.0:
        raise PenstockError(
            "A micro-batch run needs one row of arrival times, a trigger and workers above zero."
        )
    if arrivals.size and np.any(np.diff(arrivals) < 0.0):
        raise PenstockError("The arrival times must not decrease; sort the trace first.")
    responses = np.empty(arrivals.size)
    _run_trace(arrivals, trigger, overhead, per_tuple / workers, responses)
    return responses


@jit
def _run_trace(
    times: Floats, trigger: float, overhead: float, per_tuple: float, responses: Floats
) -> None:  # pragma: no cover - compiled
    first, start = 0, trigger
    while first < times.size:
        last = first
        while last < times.size and times[last] <= start:
            last += 1
        finish = start + (overhead + (last - first) * per_tuple if last > first else 0.0)
        for i in range(first, last):
            responses[i] = finish - times[i]
        boundary = (np.floor(start / trigger + 1e-9) + 1.0) * trigger
        first, start = last, max(finish, boundary)
