"""Mean waiting time of an operator in units of its service time, as a function of its utilisation."""

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class KingmanWait:
    """Kingman's approximation (MPC Expr. 7): W / T = rho / (1 - rho) (ca^2 + cs^2) / 2; infinite from rho = 1 on."""

    arrival_scv: float = 1.0
    service_scv: float = 1.0

    def __call__(self, rho: Floats) -> Floats:
        """Waiting time over service time."""
        with np.errstate(divide="ignore", invalid="ignore"):
            wait = rho / (1.0 - rho) * (self.arrival_scv + self.service_scv) / 2.0
        return np.where(rho < 1.0, wait, np.inf)


@dataclass(frozen=True, slots=True)
class BurstWait:
    """Waits of a MAP/PH/1 queue, tabulated over the utilisation.

    Stretching time leaves W / T as it is, so one table of a fitted arrival process serves every rate, number of
    replicas and frequency: only rho matters. Between the points log W is linear in log(rho / (1 - rho)).
    """

    rho: tuple[float, ...]
    wait: tuple[float, ...]

    def __call__(self, rho: Floats) -> Floats:
        """Waiting time over service time."""
        inside = np.clip(rho, 1e-6, 1.0 - 1e-9)
        at, known = np.log(inside / (1.0 - inside)), np.log(np.array(self.rho) / (1.0 - np.array(self.rho)))
        logs = np.log(np.maximum(self.wait, 1e-12))
        value = np.interp(at, known, logs)
        slope_low = (logs[1] - logs[0]) / (known[1] - known[0])
        slope_high = (logs[-1] - logs[-2]) / (known[-1] - known[-2])
        value = np.where(at < known[0], logs[0] + slope_low * (at - known[0]), value)
        value = np.where(at > known[-1], logs[-1] + slope_high * (at - known[-1]), value)
        return np.where(rho < 1.0, np.exp(value), np.inf)


#: Utilisations at which waits are tabulated.
GRID = (
    0.03,
    0.05,
    0.08,
    0.11,
    0.14,
    0.17,
    0.2,
    0.24,
    0.28,
    0.33,
    0.38,
    0.44,
    0.5,
    0.6,
    0.7,
    0.8,
    0.87,
    0.92,
    0.96,
    0.98,
)


def burst_wait(
    interarrivals: Floats,
    service_scv: float,
    percentile: float | None = None,
    max_states: int = 8,
    rows: float = 1.0,
) -> BurstWait:
    """Fit a Markovian arrival process to inter-arrival times and tabulate its waits.

    With a percentile: that percentile of the response less one service time, in its place. Where each arrival stands for
    several ``rows``, the customers of the queue are so many together: their service is so many times as long and less variable.
    """
    from penstock.models import MapPh1, fit_kpc
    from penstock.models.phase_type_fit import fit_ph

    fitted = fit_kpc(interarrivals, best=1, max_states=max_states)[0]
    service = fit_ph(1.0, min(max(service_scv / rows, 0.05), 50.0))
    queues = [MapPh1(fitted.scaled(rho), service) for rho in GRID]
    if percentile is None:
        return BurstWait(GRID, tuple(rows * float(q.mean_wait) for q in queues))
    return BurstWait(GRID, tuple(rows * max(float(q.percentile(percentile)) - 1.0, 1e-9) for q in queues))
