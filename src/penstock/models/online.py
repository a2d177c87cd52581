"""Models kept up to date while a stream runs, at a bounded price.

Every few seconds the newest inter-arrival times are looked at. While the last models still describe them, they are
only brought to the new rate, which costs milliseconds; when they do not, a new fit is made, unless fits have used
up their share of the CPU lately.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.models.fitted import FittedMap
from penstock.models.kept_fit import KeptFit
from penstock.models.kpc_fit import fit_kpc
from penstock.models.trace_statistics import MIN_GAPS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OnlineFitConfig:
    """How a running fit behaves.

    ``buffer`` newest gaps are kept; a new look is taken every ``period`` seconds; models are kept while their score
    is below ``tolerance`` times the one they were fitted with, plus a margin of 0.1; at most ``cpu_share`` of one core
    is spent, counted over all the time since the first look.
    """

    buffer: int = 50_000
    period: float = 5.0
    best: int = 5
    max_states: int = 16
    tolerance: float = 1.5
    cpu_share: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.buffer < MIN_GAPS:
            raise PenstockError(
                f"The buffer of a running fit holds at least {MIN_GAPS} inter-arrival times, not {self.buffer}."
            )
        if not self.period > 0.0 or not 0.0 < self.cpu_share <= 1.0 or not self.tolerance >= 1.0:
            raise PenstockError(
                "A running fit has a period above zero, a CPU share above 0 up to 1 and a tolerance of 1 or more."
            )


class OnlineFit:
    """A sliding buffer of inter-arrival times and the MAPs that describe it now.

    >>> from penstock.models import Poisson
    >>> online = OnlineFit()
    >>> online.add(Poisson(100.0).sample(5_000, np.random.default_rng(0)))
    >>> models = online.look(now=0.0)
    >>> bool(95 < models[0].rate < 105), online.fits
    (True, 1)
    """

    def __init__(
        self, config: OnlineFitConfig | None = None, clock: Callable[[], float] = thread_time
    ) -> None:
        self.config = config or OnlineFitConfig()
        self.models: list[FittedMap] = []
        #: Fits made, and CPU seconds spent on looks and fits.
        self.fits = 0
        self.spent = 0.0
        self._clock = clock
        self._gaps: Floats = np.empty(0)
        self._started = self._looked = -np.inf
        self._kept: KeptFit | None = None
        self._last_cost = 0.0

    def add(self, gaps: ArrayLike) -> None:
        """Take in the newest inter-arrival times."""
        self._gaps = np.concatenate([self._gaps, np.asarray(gaps, dtype=np.float64)])[-self.config.buffer :]

    def look(self, now: float) -> list[FittedMap]:
        """The models at time ``now`` in seconds: as they are, brought to the new rate, or fitted anew."""
        if self._gaps.size < MIN_GAPS or now - self._looked < self.config.period:
            return self.models
        self._started = now if self._started == -np.inf else self._started
        self._looked = now
        begun = self._clock()
        self._update(now)
        self.spent += self._clock() - begun
        return self.models

    def _update(self, now: float) -> None:
        if self._kept is not None:
            tolerance = self.config.tolerance if self._affordable(now) else np.inf
            kept = self._kept.at(self._gaps, tolerance, self.config.seed)
            if kept is not None:
                self.models = kept
                return
        begun = self._clock()
        self.models = fit_kpc(self._gaps, self.config.best, self.config.max_states, self.config.seed)
        self._last_cost = self._clock() - begun
        self._kept, self.fits = KeptFit.of(self.models, self._gaps), self.fits + 1

    def _affordable(self, now: float) -> bool:
        elapsed = now - self._started + self.config.period
        return self.spent + self._last_cost <= self.config.cpu_share * elapsed
