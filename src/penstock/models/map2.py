"""MAP(2)s fitted exactly to a few figures, by closed forms.

Three forms cover the second-order MAPs. With s1, s2 the mean stays of the two phases:

* two exponential phases, SCV > 1 (the papers' burst generator): D0 = -diag(1/s1, 1/s2), D1 = -D0 P, where
  P = 1 p + decay (I - 1 p) and p = (p1, p2) mixes the phases to mean 1: p1 = (1 - s2) / (s1 - s2);
* canonical form 1 (decay >= 0): D0 = [[-1/s1, (1-a)/s1], [0, -1/s2]], D1 = [[a/s1, 0], [(1-b)/s2, b/s2]],
  decay = ab, (1 - decay) mean = (1-b) s1 + (1-a) s2;
* canonical form 2 (decay < 0): D1 = [[0, a/s1], [b/s2, (1-b)/s2]],
  decay = -ab, (1 - decay) mean = b s1 + s2

(Bodrog, Heindl, Horvath, Telek 2008). s1 and s2 follow from three moments: with r_k = E[X^k]/k!, they are the
roots of x^2 - S x + (S r1 - r2), S = (r3 - r1 r2) / (r2 - r1^2).

Autocorrelations of a MAP(2) are (1 - 1/SCV)/2 decay^k, so its index of dispersion is
I = SCV + (SCV - 1) decay / (1 - decay), which is solved for whichever figure was not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.models.fitted import FittedMap

Matrix = NDArray[np.float64]

#: SCV of the bursty family of the papers: fast and slow phases of mean m / F and F m with F = 2 + sqrt(3), the
#: smallest F for which the lag-1 autocorrelation can reach 0.4.
_BURSTY_SCV = 5.0
#: Mildly bursty streams keep this decay and lower the SCV instead.
_MILD_DECAY = 0.5
_EDGE = 1e-10


@dataclass(frozen=True)
class _Point:
    """The figures to hit, all of them decided: unit mean, SCV, third reduced moment r3 = E[X^3]/6, decay."""

    scv: float
    third: float
    decay: float


def fit_map2(
    mean: float,
    *,
    scv: float | None = None,
    skewness: float | None = None,
    decay: float | None = None,
    dispersion: float | None = None,
) -> FittedMap:
    """A MAP(2) with this mean inter-arrival time and the other figures given.

    Where the point lies outside what two phases can do, the nearest feasible value is taken, in the order SCV,
    skewness, decay, and ``notes`` of the result says so; ``exact`` is then false. Figures left out get those of
    the bursty family of the papers (two exponential phases, PPQ section 4.3.2): ``fit_map2(m, dispersion=I)`` is
    the burst generator, and I = 1 is Poisson.

    >>> burst = fit_map2(0.001, dispersion=1000.0)
    >>> round(burst.rate, 6), round(burst.dispersion, 6), burst.exact
    (1000.0, 1000.0, True)
    >>> fit_map2(1.0, scv=0.2).notes
    ('SCV 0.2 is out of reach of two phases; the nearest is 0.5.',)
    """
    _check(mean, scv, skewness, decay, dispersion)
    notes: list[str] = []
    scv, decay = _scv_and_decay(scv, decay, dispersion, notes)
    if abs(scv - 1.0) < _EDGE:
        if skewness is not None and abs(skewness - 2.0) > _EDGE:
            notes.append(f"Skewness {skewness:g} is out of reach at SCV 1; the nearest is 2.")
        if abs(decay) > _EDGE:
            notes.append("Exponential gaps of two phases cannot be correlated; the decay is 0.")
        matrices = np.array([[-1.0]]), np.array([[1.0]])
    else:
        point = _Point(scv, _third(scv, skewness, notes), decay)
        matrices = _matrices(_feasible_decay(_free_third(point) if skewness is None else point, notes))
    return FittedMap(matrices[0] / mean, matrices[1] / mean, exact=not notes, notes=tuple(notes))


def _check(
    mean: float, scv: float | None, skewness: float | None, decay: float | None, disp: float | None
) -> None:
    if not (mean > 0.0 and isfinite(mean)):
        raise PenstockError(f"A mean inter-arrival time of {mean} s is impossible; give a number above zero.")
    if scv is not None and not (scv > 0.0 and isfinite(scv)):
        raise PenstockError(f"An SCV of {scv} is impossible; give a number above zero.")
    if skewness is not None and not isfinite(skewness):
        raise PenstockError("The skewness must be a finite number.")
    if decay is not None and not -1.0 <= decay < 1.0:
        raise PenstockError(
            f"A decay of {decay} is impossible; autocorrelations decay by a factor from -1 to below 1."
        )
    if disp is not None and not (disp > 0.0 and isfinite(disp)):
        raise PenstockError(
            f"An index of dispersion of {disp} is impossible; give a number above zero (1 is Poisson)."
        )
    if disp is not None and scv is None and decay is None and disp < 1.0:
        raise PenstockError(
            f"An index of dispersion of {disp} is below 1, which the burst generator cannot give; use 1 or more, or give scv too."
        )
    if disp is not None and scv is not None and decay is not None:
        raise PenstockError(
            "SCV, decay and dispersion determine one another in a MAP(2); give at most two of them."
        )


def _scv_and_decay(
    scv: float | None, decay: float | None, dispersion: float | None, notes: list[str]
) -> tuple[float, float]:
    """Fill in what is missing from I = SCV + (SCV - 1) decay / (1 - decay)."""
    if dispersion is None:
        return _feasible_scv(1.0 if scv is None else scv, notes), decay or 0.0
    if scv is None:
        if decay is None:
            excess = dispersion - 1.0
            decay = max(_MILD_DECAY, 1.0 - (_BURSTY_SCV - 1.0) / excess) if excess > 0.0 else 0.0
        scv = _feasible_scv(dispersion * (1.0 - decay) + decay, notes)
        return scv, decay if abs(scv - 1.0) >= _EDGE else 0.0
    scv = _feasible_scv(scv, notes)
    if abs(scv - 1.0) < _EDGE:
        if abs(dispersion - 1.0) > _EDGE:
            notes.append(
                f"An SCV of 1 leaves two phases no correlation, so a dispersion of {dispersion:g} is out of reach; the nearest is 1."
            )
        return 1.0, 0.0
    ratio = (dispersion - scv) / (scv - 1.0)
    if ratio <= -0.5:
        notes.append(
            f"A dispersion of {dispersion:g} is out of reach at SCV {scv:g}; the nearest feasible decay is used."
        )
        return scv, -1.0
    return scv, ratio / (1.0 + ratio)


def _feasible_scv(scv: float, notes: list[str]) -> float:
    if scv >= 0.5 - _EDGE:
        return max(scv, 0.5)
    notes.append(f"SCV {scv:g} is out of reach of two phases; the nearest is 0.5.")
    return 0.5


def _third(scv: float, skewness: float | None, notes: list[str]) -> float:
    """r3 = E[X^3]/6 at unit mean: the given skewness moved into its bounds, or the default of the family.

    Bounds (Telek and Heindl 2002): r3 > (1 + SCV)^2 / 4 above SCV 1; below,
    (3 SCV - 1 + sqrt(2) (1 - SCV)^1.5) / 2 <= r3 <= SCV. Defaults: two exponential phases of means 1/F and F,
    where SCV = 2F + 2/F - 3 and r3 = ((SCV + 3)/2)^2 - (SCV + 3)/2 - 1, or two stages in a row.
    """
    if scv < 1.0:
        low, high = float(3 * scv - 1 + sqrt(2.0) * (1 - scv) ** 1.5) / 2, scv
        default = high
    else:
        spread = (scv + 3.0) / 2.0
        low, high = (1 + scv) ** 2 / 4 * (1 + 1e-6), float("inf")
        default = spread**2 - spread - 1.0
    if skewness is None:
        return default
    third = float(skewness * scv**1.5 + 3 * scv + 1) / 6
    if low - _EDGE <= third <= high + _EDGE:
        return min(max(third, low), high)
    nearest = min(max(third, low), high)
    notes.append(
        f"Skewness {skewness:g} is out of reach at SCV {scv:g}; the nearest is {(6 * nearest - 3 * scv - 1) / scv**1.5:g}."
    )
    return nearest


def _feasible_decay(point: _Point, notes: list[str]) -> _Point:
    """The point itself, or the same with its decay moved towards 0 until two phases can do it.

    The feasible decays of given moments form an interval around 0 (no correlation: a renewal process).
    """
    nearest = _nearest_decay(point)
    if nearest != point.decay:
        notes.append(
            f"A decay of {point.decay:g} is out of reach with these moments; the nearest is {nearest:g}."
        )
    return _Point(point.scv, point.third, nearest)


def _nearest_decay(point: _Point) -> float:
    if _solve(point) is not None:
        return point.decay
    inside, outside = 0.0, point.decay
    for _ in range(50):
        middle = 0.5 * (inside + outside)
        if _solve(_Point(point.scv, point.third, middle)) is None:
            outside = middle
        else:
            inside = middle
    return inside


def _free_third(point: _Point) -> _Point:
    """Where nobody asked for a skewness, the one nearest to the default that makes the decay feasible."""
    if _solve(point) is not None:
        return point
    if point.scv < 1.0:
        low = float(3 * point.scv - 1 + sqrt(2.0) * (1 - point.scv) ** 1.5) / 2
        choices = np.linspace(point.scv, low, 66)[1:-1]
    else:
        choices = (1 + point.scv) ** 2 / 4 * (1 + np.geomspace(1e-3, 1e3, 65))
        choices = choices[np.argsort(np.abs(np.log(choices / point.third)))]
    best, gap = point, abs(_nearest_decay(point) - point.decay)
    for third in choices.tolist():
        candidate = _Point(point.scv, third, point.decay)
        miss = abs(_nearest_decay(candidate) - point.decay)
        if miss < gap - 1e-6:
            best, gap = candidate, miss
        if miss == 0.0:
            break
    return best


def _solve(point: _Point) -> tuple[float, float, float, float] | None:
    """(s1, s2, a, b) of the canonical form, or None where no probabilities a and b exist."""
    large, small = _stays(point)
    if small <= 0.0:
        return None
    for s1, s2 in ((large, small), (small, large)):
        for a, b in _mixing(s1, s2, point.decay):
            if -_EDGE <= a <= 1.0 + _EDGE and -_EDGE <= b <= 1.0 + _EDGE:
                return s1, s2, min(max(a, 0.0), 1.0), min(max(b, 0.0), 1.0)
    return None


def _stays(point: _Point) -> tuple[float, float]:
    """The two mean stays, larger first; the smaller is zero or negative where no two phases have these moments."""
    second = (1.0 + point.scv) / 2.0
    total = (point.third - second) / (second - 1.0)
    product = total - second
    large = 0.5 * (total + sqrt(max(total * total - 4.0 * product, 0.0)))
    return large, (product / large if large > 0.0 else 0.0)  # by division: subtraction would cancel


def _two_exponentials(point: _Point) -> tuple[Matrix, Matrix] | None:
    """Two exponential phases without hidden transitions, or None where the decay is too negative for them."""
    large, small = _stays(point)
    slow = (1.0 - small) / (large - small)
    enter = np.array([slow, 1.0 - slow])
    jump = (1.0 - point.decay) * np.outer(np.ones(2), enter) + np.diag([point.decay, point.decay])
    if small <= 0.0 or jump.min() < 0.0:
        return None
    rates = np.array([1.0 / large, 1.0 / small])
    return -np.diag(rates), rates[:, None] * jump


def _mixing(s1: float, s2: float, decay: float) -> list[tuple[float, float]]:
    """The pairs (a, b) that give mean 1 and this decay; none need be probabilities."""
    if decay < 0.0:
        b = ((1.0 - decay) - s2) / s1
        return [(-decay / b, b)] if b != 0.0 else []
    known = s1 + s2 - (1.0 - decay)
    if decay == 0.0:
        return [(0.0, known / s1), (known / s2, 0.0)]
    inner = known * known - 4.0 * s1 * s2 * decay
    if inner < 0.0 or known == 0.0:
        return []
    far = 0.5 * (known + np.copysign(sqrt(inner), known))
    a_far, a_near = far / s2, decay * s1 / far
    return [(a_far, decay / a_far), (a_near, decay / a_near)]


def _matrices(point: _Point) -> tuple[Matrix, Matrix]:
    if point.scv > 1.0 and (mixed := _two_exponentials(point)) is not None:
        return mixed
    solved = _solve(point)
    if solved is None:
        raise PenstockError("No MAP(2) has these moments; leave out the skewness.")
    s1, s2, a, b = solved
    hidden = np.array([[-1 / s1, (1 - a) / s1], [0.0, -1 / s2]])
    if point.decay >= 0.0:
        visible = np.array([[a / s1, 0.0], [(1 - b) / s2, b / s2]])
    else:
        visible = np.array([[0.0, a / s1], [b / s2, (1 - b) / s2]])
    return hidden, visible
