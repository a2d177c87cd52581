"""The papers' utilisation factor of a stage with unevenly loaded workers."""

from collections.abc import Sequence

import numpy as np


def utilisation(
    scheduled: Sequence[float], processed: Sequence[float], busy: Sequence[float], period: float
) -> float:
    """Utilisation rho of a stage from what its workers did in a period (Elastic-PPQ 3.1).

        C    = sum(busy) / sum(processed)                  cost of a tuple
        mu_i = processed_i + (period - busy_i) / C         what worker i could have processed
        rho  = sum_i lambda_i^2 / (lambda mu_i)            lambda_i = scheduled_i, lambda = their sum

    A worker's own factor lambda_i / mu_i counts by its share of the arrivals; above 1 the stage falls behind.

    >>> utilisation([90, 90], [90, 90], [0.9, 0.9], 1.0)
    0.9
    >>> utilisation([300], [100], [1.0], 1.0)
    3.0
    """
    arrived, done, spent = (np.asarray(v, dtype=float) for v in (scheduled, processed, busy))
    total = arrived.sum()
    if total <= 0:
        return 0.0
    if done.sum() <= 0 or spent.sum() <= 0:
        return float("nan")
    cost = spent.sum() / done.sum()
    could = done + np.maximum(period - spent, 0.0) / cost
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(arrived > 0, arrived**2 / (total * could), 0.0)
    return float(share.sum())
