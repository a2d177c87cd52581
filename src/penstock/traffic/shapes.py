"""Shapes of the rate over time: steps, ramps, daily cycles, flash crowds.

A shape is a factor f(t) > 0 that is piecewise linear. Its integral F is then piecewise quadratic and can be
inverted exactly, which is all that modulation needs: arrivals of the shaped stream are at F^-1 of the arrivals of
the plain one (a change of clock), so that bursts keep their size in tuples while the rate follows the shape.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import pi

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError


@dataclass(frozen=True)
class RateShape:
    """Factors at given times, straight lines between them; constant after the last, or repeated every ``period``.

    Two points at the same time are a jump.

    >>> twice = steps((10.0, 2.0))
    >>> [float(twice.factor(t)) for t in (0.0, 9.9, 10.1)], float(twice.integral(11.0))
    ([1.0, 1.0, 2.0], 12.0)
    """

    points: tuple[tuple[float, float], ...]
    period: float | None = None

    def __post_init__(self) -> None:
        times, factors = np.array(self.points, dtype=np.float64).reshape(-1, 2).T
        if not (np.isfinite(times).all() and np.isfinite(factors).all()) or np.any(factors < 0.0):
            raise PenstockError("The factors of a rate shape are finite numbers of zero or more.")
        if times.size == 0 or times[0] != 0.0 or np.any(np.diff(times) < 0.0):
            raise PenstockError("The points of a rate shape start at time 0 and go forwards in time.")
        if self.period is None and factors[-1] <= 0.0:
            raise PenstockError(
                "A rate shape that does not repeat must not end at factor 0: nothing would ever arrive again."
            )
        if self.period is not None and not (np.isfinite(self.period) and self.period >= times[-1] > 0.0):
            raise PenstockError(
                f"A rate shape with a last point at {times[-1]:g} s cannot repeat every {self.period:g} s; give a longer period."
            )
        if self.period is not None and self._areas[-1] <= 0.0:
            raise PenstockError("A rate shape needs a factor above zero somewhere.")

    @cached_property
    def _knots(self) -> tuple[Floats, Floats]:
        times, factors = np.array(self.points, dtype=np.float64).T
        if self.period is not None and self.period > times[-1]:
            times, factors = np.append(times, self.period), np.append(factors, factors[-1])
        return times, factors

    @cached_property
    def _areas(self) -> Floats:
        times, factors = self._knots
        pieces = np.diff(times) * (factors[1:] + factors[:-1]) / 2.0
        return np.concatenate([[0.0], np.cumsum(pieces)])

    @property
    def mean(self) -> float:
        """Mean factor in the long run: over one period, or the last one."""
        return float(self._areas[-1]) / self.period if self.period else float(self._knots[1][-1])

    def _fold(self, t: Floats) -> tuple[Floats, Floats]:
        if self.period is None:
            return np.zeros_like(t), t
        laps = np.floor(t / self.period)
        return laps, t - laps * self.period

    def factor(self, t: ArrayLike) -> Floats:
        """f(t)."""
        _, inside = self._fold(np.asarray(t, dtype=np.float64))
        times, factors = self._knots
        index = np.clip(np.searchsorted(times, inside, side="right") - 1, 0, times.size - 1)
        return np.asarray(factors[index] + self._slopes[index] * (inside - times[index]))

    @cached_property
    def _slopes(self) -> Floats:
        times, factors = self._knots
        width = np.diff(times)
        rise = np.divide(np.diff(factors), width, out=np.zeros_like(width), where=width > 0.0)
        return np.append(rise, 0.0)

    def integral(self, t: ArrayLike) -> Floats:
        """F(t), the integral of f from 0 to t."""
        laps, inside = self._fold(np.asarray(t, dtype=np.float64))
        times, factors = self._knots
        index = np.clip(np.searchsorted(times, inside, side="right") - 1, 0, times.size - 1)
        part = inside - times[index]
        area = self._areas[index] + part * (factors[index] + self._slopes[index] * part / 2.0)
        return np.asarray(area + laps * self._areas[-1])

    def inverse(self, area: ArrayLike) -> Floats:
        """The first t with F(t) = area: within a piece, the root of a quadratic, in its stable form."""
        wanted = np.asarray(area, dtype=np.float64)
        laps = np.floor(wanted / self._areas[-1]) if self.period else np.zeros_like(wanted)
        rest = np.maximum(wanted - laps * self._areas[-1], 0.0) if self.period else wanted
        times, factors = self._knots
        index = np.clip(np.searchsorted(self._areas, rest, side="left") - 1, 0, times.size - 1)
        # The piece after the last knot (no period) has an index of its own; areas beyond the last belong to it.
        if self.period is None:
            index = np.where(rest > self._areas[-1], times.size - 1, index)
        need, f, slope = rest - self._areas[index], factors[index], self._slopes[index]
        root = f + np.sqrt(np.maximum(f * f + 2.0 * slope * need, 0.0))
        part = np.divide(2.0 * need, root, out=np.zeros_like(root), where=root > 0.0)
        return np.asarray(times[index] + part + laps * (self.period or 0.0))

    def unrolled(self, seconds: float) -> "RateShape":
        """A repeating shape written out up to ``seconds``, going on at its mean; another one as it is."""
        if self.period is None:
            return self
        times, factors = self._knots
        laps = np.arange(np.ceil(seconds / self.period)) * self.period
        at, values = (laps[:, None] + times).ravel(), np.tile(factors, laps.size)
        last = (float(at[-1]), self.mean)
        return RateShape((*zip(at.tolist(), values.tolist(), strict=True), last))

    def __mul__(self, other: "RateShape") -> "RateShape":
        """Both shapes at once, sampled finely enough for straight lines between the points."""
        if other.period is not None and self.period is not None and self.period != other.period:
            raise PenstockError("Two repeating rate shapes can be combined only if their periods are equal.")
        if (self.period is None) != (other.period is None):
            raise PenstockError(
                "A repeating and a one-time rate shape cannot be combined on a stream without end; give the stream a length in seconds."
            )
        return _product(self, other)


def _product(left: RateShape, right: RateShape) -> RateShape:
    """The product on the union of the knots; a piece where both slope is cut into 16 to stay close."""
    knots = np.union1d(left._knots[0], right._knots[0])
    points: list[tuple[float, float]] = []
    for begin, end in pairwise(knots):
        inner = np.linspace(begin, end, 17)
        inside = np.concatenate([[np.nextafter(begin, end)], inner[1:-1], [np.nextafter(end, begin)]])
        values = left.factor(inside) * right.factor(inside)
        bent = np.ptp(np.diff(values)) > 1e-9 * max(values.max(), 1.0)
        keep = slice(None) if bent else [0, -1]
        points += zip(inner[keep].tolist(), values[keep].tolist(), strict=True)
    if left.period is None:
        last = float(knots[-1])
        points.append((last, float(left.factor(last) * right.factor(last))))
    return RateShape(tuple(points), left.period)


def steps(*changes: tuple[float, float], period: float | None = None) -> RateShape:
    """Factor 1, then from each time on another factor: ``steps((10, 3), (20, 1))``."""
    points = [(0.0, 1.0)]
    for at, factor in changes:
        points += [(at, points[-1][1]), (at, factor)]
    return RateShape(tuple(points), period)


def ramp(start: float, end: float, factor: float) -> RateShape:
    """Factor 1 until ``start``, rising or falling to ``factor`` at ``end``, and staying there."""
    if not 0.0 <= start < end:
        raise PenstockError(f"A ramp from {start:g} s to {end:g} s is impossible; it ends after it starts.")
    return RateShape(((0.0, 1.0), (start, 1.0), (end, factor)))


def daily(period: float = 86400.0, amplitude: float = 0.5, pieces: int = 96) -> RateShape:
    """A cycle 1 - amplitude cos(2 pi t / period): the night at time 0, mean factor 1."""
    if not (0.0 <= amplitude <= 1.0 and period > 0.0):
        raise PenstockError("A daily cycle has a period above zero and an amplitude from 0 to 1.")
    at = np.linspace(0.0, period, pieces + 1)
    factors = np.maximum(1.0 - amplitude * np.cos(2.0 * pi * at / period), 0.0)
    return RateShape(tuple(zip(at.tolist(), factors.tolist(), strict=True)), period)


def flash_crowd(at: float, peak: float, rise: float, decay: float) -> RateShape:
    """Factor 1, from ``at`` on a climb to ``peak`` within ``rise`` seconds, then 1 + (peak - 1) e^(-t / decay)."""
    if not (at >= 0.0 and rise > 0.0 and decay > 0.0 and peak > 0.0):
        raise PenstockError(
            "A flash crowd has a start of zero or more, and a peak, rise and decay above zero."
        )
    after = np.linspace(0.0, 8.0 * decay, 65)
    fall = 1.0 + (peak - 1.0) * np.exp(-after / decay)
    tail = zip((at + rise + after).tolist(), fall.tolist(), strict=True)
    return RateShape(((0.0, 1.0), (at, 1.0), *tail, (at + rise + 9.0 * decay, 1.0)))
