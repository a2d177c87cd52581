"""Processes made of processes: a rate shape over one, several on top of each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.errors import PenstockError
from penstock.models import MAP
from penstock.traffic.markov import MapArrivals
from penstock.traffic.process import ArrivalProcess, ArrivalRun, Mark, Times
from penstock.traffic.seeds import Seeds
from penstock.traffic.shapes import RateShape

#: Beyond this many phases the merged MAP is not worth building; the dispersion needs no matrices anyway.
_MOST_PHASES = 64


@dataclass(frozen=True)
class Shaped(ArrivalProcess):
    """A process whose rate follows a shape: its clock runs f(t) times as fast.

    >>> from penstock.traffic import poisson
    >>> from penstock.traffic.shapes import steps
    >>> stream = Shaped(poisson(1000.0), steps((10.0, 3.0)))
    >>> times = stream.sample(20.0, seed=1)
    >>> bool(abs((times >= 10.0).sum() / 30_000 - 1) < 0.03)
    True
    """

    process: ArrivalProcess
    shape: RateShape

    @property
    def rate(self) -> float:
        """Arrivals per second in the long run."""
        return self.process.rate * self.shape.mean

    def expected(self, start: float, end: float) -> float:
        """Expected number of arrivals between two times."""
        return self.process.rate * float(self.shape.integral(end) - self.shape.integral(start))

    def run(self, seeds: Seeds, mark: Mark | None = None) -> ArrivalRun:
        """Start from time 0, or go on from a mark of the same process and seeds."""
        return _ShapedRun(self.process.run(seeds, mark), self.shape)


class _ShapedRun(ArrivalRun):
    def __init__(self, run: ArrivalRun, shape: RateShape) -> None:
        self._run, self._shape = run, shape

    def until(self, end: float) -> Times:
        times = self._shape.inverse(self._run.until(float(self._shape.integral(end))))
        return np.minimum(times, np.nextafter(end, 0.0))  # rounding must not push an arrival over the cut

    def mark(self) -> Mark:
        return self._run.mark()


@dataclass(frozen=True)
class Superposition(ArrivalProcess):
    """Several independent streams in one.

    Rates add up; so do variances of counts, hence I(t) = sum rate_i I_i(t) / sum rate_i.

    >>> from penstock.traffic import map2, poisson
    >>> both = Superposition((poisson(900.0), map2(100.0, dispersion=101.0)))
    >>> round(both.rate), round(both.dispersion, 6)
    (1000, 11.0)
    """

    parts: Sequence[ArrivalProcess]

    def __post_init__(self) -> None:
        if not self.parts:
            raise PenstockError("A superposition needs at least one process.")

    @property
    def rate(self) -> float:
        """Arrivals per second."""
        return sum(part.rate for part in self.parts)

    @cached_property
    def _merged(self) -> MAP | None:
        models = [part.model for part in self.parts if isinstance(part, MapArrivals)]
        if len(models) < len(self.parts) or np.prod([model.order for model in models]) > _MOST_PHASES:
            return None
        return reduce(lambda a, b: a.superpose(b), models)

    @property
    def scv(self) -> float | None:
        """Squared coefficient of variation, where all parts are MAPs."""
        return self._merged.scv if self._merged else None

    def autocorrelation(self, lags: ArrayLike) -> Times | None:
        """Autocorrelation of inter-arrival times, where all parts are MAPs."""
        return self._merged.autocorrelation(lags) if self._merged else None

    @property
    def dispersion(self) -> float | None:
        """Limit of the index of dispersion, where all parts have one."""
        weighted = [part.rate * part.dispersion for part in self.parts if part.dispersion is not None]
        return sum(weighted) / self.rate if len(weighted) == len(self.parts) else None

    def dispersion_at(self, seconds: ArrayLike) -> Times | None:
        """Index of dispersion of counts, where all parts have one."""
        total = np.zeros_like(np.atleast_1d(np.asarray(seconds, dtype=np.float64)))
        for part in self.parts:
            one = part.dispersion_at(seconds)
            if one is None:
                return None
            total += part.rate * one
        return total / self.rate

    def run(self, seeds: Seeds, mark: Mark | None = None) -> ArrivalRun:
        """Start from time 0, or go on from a mark of the same process and seeds."""
        marks = [None] * len(self.parts) if mark is None else mark
        return _MergedRun(
            [part.run(seeds.child(i), m) for i, (part, m) in enumerate(zip(self.parts, marks, strict=True))]
        )


class _MergedRun(ArrivalRun):
    def __init__(self, runs: list[ArrivalRun]) -> None:
        self._runs = runs

    def until(self, end: float) -> Times:
        return np.sort(np.concatenate([run.until(end) for run in self._runs]))

    def mark(self) -> Mark:
        return [run.mark() for run in self._runs]
