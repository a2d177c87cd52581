"""Fits that are kept while they still describe the arrivals: a look costs milliseconds, a new fit a third of a second."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.models.fitted import FittedMap
from penstock.models.kpc_fit import changes_slowly, scored
from penstock.models.map import MAP
from penstock.models.trace_statistics import clean_gaps, trace_statistics

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KeptFit:
    """The fits of one window, best first, when they were made and of how long a window, and the score that the best of them had then.

    A plain value, so that the state of a policy can hold it.
    """

    made: float  # when, in seconds
    length: float  # seconds of arrivals
    score: float
    hidden: tuple[Floats, ...]
    visible: tuple[Floats, ...]
    scores: tuple[float, ...]
    slow: bool = False  # whether scores are those of slowly changing rates

    @staticmethod
    def of(fits: Sequence[FittedMap], gaps: Floats, now: float = 0.0) -> "KeptFit":
        """What is kept of new fits.

        >>> from penstock.models import Poisson, fit_kpc
        >>> calm = Poisson(100.0).sample(5_000, np.random.default_rng(0))
        >>> kept = KeptFit.of(fit_kpc(calm, best=2, max_states=4), calm)
        >>> halved = kept.at(2.0 * calm)
        >>> [bool(np.isclose(fit.rate, 0.5 / calm.mean())) for fit in halved], kept.at(np.repeat(calm, 50))
        ([True, True], None)
        """
        scores = tuple(fit.score for fit in fits)
        length, slow = float(np.sum(gaps)), changes_slowly(trace_statistics(clean_gaps(gaps)))
        matrices = tuple(f.D0 for f in fits), tuple(f.D1 for f in fits)
        return KeptFit(now, length, scores[0], *matrices, scores, slow)

    def at(self, gaps: Floats, tolerance: float = 1.5, seed: int = 0) -> list[FittedMap] | None:
        """The fits at the rate of these gaps, or None where the best no longer describes them.

        It does while its score is at most ``tolerance`` times the one it was made with, plus a margin of 0.1.
        """
        stats = trace_statistics(clean_gaps(gaps), seed)
        if not stats.scv > 0.0:
            return None
        best = scored(MAP(self.hidden[0], self.visible[0]), stats, self.slow)
        if best.score > tolerance * self.score + 0.1:
            return None
        rest = zip(self.hidden[1:], self.visible[1:], self.scores[1:], strict=True)
        return [best, *(_at_rate(MAP(d0, d1), 1.0 / stats.mean, score) for d0, d1, score in rest)]


def _at_rate(process: MAP, rate: float, score: float) -> FittedMap:
    factor = rate / process.rate
    return FittedMap(process.D0 * factor, process.D1 * factor, exact=False, score=score)
