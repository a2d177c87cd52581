"""Response times of a micro-batch query: a tuple waits for its batch, which a queueing formula does not know."""

from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.arrays import Floats
from penstock.policies.waiting import GRID

if TYPE_CHECKING:
    from penstock.models import MicroBatch

#: What stands for the interval of a query whose batches follow each other at once, in seconds.
AT_ONCE = 0.1
#: Utilisation from which on a micro-batch query is taken to fall behind.
_FULL = 0.98


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """Response in seconds under Poisson arrivals, for every rate; slower bursts are the forecast's business.

    overhead of a batch with n workers of share f: fixed + tasks / (n f). Starting tasks is shared by the workers,
    planning and committing is not.
    """

    trigger: float
    fixed: float  # seconds a batch outside of tasks
    tasks: float = 0.0  # seconds of one whole worker a batch, whatever is in it
    percentile: float | None = None  # None: the mean

    def __call__(
        self, rho: Floats, rate: float, workers: tuple[int, ...], shares: tuple[float, ...]
    ) -> Floats:
        """Response of every (workers, share); infinite where it cannot keep up."""
        whole = np.array(workers, dtype=float)[:, None] * np.array(shares)[None, :]
        size = round(log2(max(rate * self.trigger, 1.0)))
        flat = [
            _relative(round(o / self.trigger, 2), round(r, 2), size, self.percentile)
            for o, r in zip((self.fixed + self.tasks / whole).ravel(), rho.ravel(), strict=True)
        ]
        return self.trigger * np.array(flat).reshape(rho.shape)


@lru_cache(maxsize=8192)
def _relative(overhead: float, load: float, size: int, percentile: float | None) -> float:
    """Response in trigger intervals.

    Stretching time changes nothing, so overhead over trigger, load (work that arrives a second of capacity) and the
    size of a batch (its random part) say everything, and rounding them makes the answers reusable.
    """
    if load >= _FULL:
        return float("inf")
    query = _idle(size).with_costs(overhead, load / 2.0**size)
    return float(query.mean_response if percentile is None else query.percentile(percentile))


@lru_cache(maxsize=64)
def _idle(size: int) -> "MicroBatch":
    """A query whose batches have so many rows on average (a power of two) and cost nothing yet."""
    from penstock.models import MicroBatch

    return MicroBatch(2.0**size, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """Response times of a micro-batch query in seconds, tabulated over the utilisation for every CPU share.

    More workers and fewer tuples act alike through rho; a smaller share also stretches the overhead of a batch, so it
    has a table of its own.
    """

    shares: tuple[float, ...]
    rho: tuple[float, ...]
    seconds: tuple[tuple[float, ...], ...]  # one row a share

    def __call__(self, rho: Floats, shares: tuple[float, ...]) -> Floats:
        """Response of every (workers, share); infinite from rho = 1 on."""
        columns = []
        for i, share in enumerate(shares):
            table = self.seconds[min(range(len(self.shares)), key=lambda j: abs(self.shares[j] - share))]
            near = np.interp(rho[:, i], self.rho, np.log(table))
            steep = (np.log(table[-1]) - np.log(table[-2])) / np.log((1 - self.rho[-2]) / (1 - self.rho[-1]))
            with np.errstate(invalid="ignore", divide="ignore"):
                far = np.log(table[-1]) + steep * np.log((1 - self.rho[-1]) / (1 - rho[:, i]))
            columns.append(
                np.where(rho[:, i] < 1, np.exp(np.where(rho[:, i] > self.rho[-1], far, near)), np.inf)
            )
        return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True)
class BatchSetting:
    """A micro-batch query as observed: trigger, overhead at a whole core, seconds a tuple on a whole core, rate."""

    trigger: float
    overhead: float
    work: float
    rate: float


def batch_response(
    interarrivals: Floats, setting: BatchSetting, shares: tuple[float, ...], percentile: float | None = None
) -> BatchResponse:
    """Fit the arrivals and tabulate the response of the micro-batch model."""
    from penstock.models import MicroBatch, fit_kpc

    fitted = fit_kpc(interarrivals, best=1, max_states=8)[0].scaled(setting.rate)
    query = MicroBatch(fitted, setting.trigger, setting.overhead, setting.work)
    rows = []
    for share in shares:
        row = []
        for rho in GRID:
            sized = query.with_capacity(workers=setting.rate * setting.work / (rho * share), share=share)
            row.append(float(sized.mean_response if percentile is None else sized.percentile(percentile)))
        rows.append(tuple(np.maximum.accumulate(row).tolist()))
    return BatchResponse(shares, GRID, tuple(rows))
