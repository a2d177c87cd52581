"""Phase-type laws fitted to a mean, an SCV and, where two phases reach it, a third moment."""

from math import ceil, isfinite, sqrt

import numpy as np

from penstock.core.errors import PenstockError
from penstock.models.map2 import fit_map2
from penstock.models.phase_type import PH, Erlang

#: Constant service times would need infinitely many phases; this many give an SCV of 0.01.
MAX_PHASES = 100


class FittedPH(PH):
    """A phase-type law with the story of its fit: ``exact``, and ``notes`` in words where it is not."""

    exact: bool = True
    notes: tuple[str, ...] = ()


def fit_ph(mean: float, scv: float, skewness: float | None = None) -> FittedPH:
    """A phase-type law with this mean and SCV.

    Below SCV 1, a mix of Erlang k-1 and k (Tijms 1994); above, two exponential phases; with a skewness, the
    two-phase law that has it, or the nearest feasible one. ``notes`` say what could not be met.

    >>> law = fit_ph(2.0, scv=0.3)
    >>> law.order, round(law.mean, 9), round(law.scv, 9)
    (4, 2.0, 0.3)
    """
    if not (mean > 0.0 and isfinite(mean)) or not (scv >= 0.0 and isfinite(scv)):
        raise PenstockError(
            f"A mean of {mean} s with an SCV of {scv} is impossible; give a mean above zero and an SCV of zero or more."
        )
    if scv < 0.5 or (skewness is None and scv < 1.0):
        law = _erlang_mix(mean, max(scv, 1.0 / MAX_PHASES))
        if scv < 1.0 / MAX_PHASES:
            law.notes += (
                f"An SCV of {scv:g} takes more than {MAX_PHASES} phases; it is {1 / MAX_PHASES:g} here.",
            )
        if skewness is not None:
            law.notes += ("The skewness is only matched from an SCV of 0.5 on.",)
        law.exact = not law.notes
        return law
    renewal = fit_map2(mean, scv=scv, skewness=skewness)
    law = FittedPH(renewal.phase_at_arrivals, renewal.D0)
    law.exact, law.notes = renewal.exact, renewal.notes
    return law


def _erlang_mix(mean: float, scv: float) -> FittedPH:
    """k stages, the first skipped with probability p = (k scv - sqrt(k (1 + scv) - k^2 scv)) / (1 + scv)."""
    k = ceil(1.0 / scv - 1e-9)
    if abs(k * scv - 1.0) < 1e-9:
        plain = Erlang(k, mean)
        return FittedPH(plain.alpha, plain.T)
    skip = (k * scv - sqrt(max(k * (1.0 + scv) - k * k * scv, 0.0))) / (1.0 + scv)
    start = np.zeros(k)
    start[0], start[1] = 1.0 - skip, skip
    rate = (k - skip) / mean
    return FittedPH(start, -rate * np.eye(k) + rate * np.eye(k, k=1))
