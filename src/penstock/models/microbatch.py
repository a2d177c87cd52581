"""The micro-batch queue: what Spark Structured Streaming really is, under bursty arrivals.

Tuples wait for the next batch. A batch that starts at b takes all n tuples that came since the last start and costs
overhead + n per_tuple / workers seconds (nothing where n = 0). The next one starts at the next multiple of the
trigger after b, or at once if the batch ran past it, as Spark's processing-time trigger does, and is longer for it.
A tuple is done when its batch is.

No closed form is known for MAP arrivals, so counts per slot are drawn once (``map_counts``) and the recursion is run
over them: the same random numbers serve every number of workers, which makes comparisons sharp. ``error`` states
what the chance costs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.models.arrivals import Poisson
from penstock.models.map import MAP
from penstock.models.map_counts import sample_counts
from penstock.models.microbatch_loop import BINS, bin_edges, run_batches
from penstock.models.queue import as_share

Floats = NDArray[np.float64]

_SLOTS = 8
_GROUPS = 20
_LEAST_TRIGGERS, _MOST_TRIGGERS = 4_000, 40_000


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """A streaming query with a trigger every ``trigger`` seconds.

    ``arrivals`` is a MAP or a Poisson rate, ``overhead`` the fixed cost of a batch and ``per_tuple`` the cost of a
    tuple on one worker, in seconds; ``share`` is the share of its CPUs that the query may use and slows down both.

    >>> query = MicroBatch(1000.0, trigger=1.0, overhead=0.2, per_tuple=0.001, workers=2)
    >>> query.utilisation, round(query.mean_response, 1)  # half a trigger of waiting, then 0.2 + 1000 x 0.0005
    (0.5, 1.2)
    >>> query.workers_for(target=0.9)
    5
    """

    arrivals: MAP | float
    trigger: float
    overhead: float
    per_tuple: float
    workers: float = 1.0
    share: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.trigger > 0.0 and isfinite(self.trigger)):
            raise PenstockError(f"A trigger of {self.trigger} s is impossible; give a number above zero.")
        if not (
            self.overhead >= 0.0
            and isfinite(self.overhead)
            and self.per_tuple >= 0.0
            and isfinite(self.per_tuple)
        ):
            raise PenstockError("The overhead of a batch and the cost of a tuple are zero or more seconds.")
        if not (self.workers > 0.0 and isfinite(self.workers)) or not 0.0 < self.share <= 1.0:
            raise PenstockError(
                f"A query has more than zero workers and a CPU share above 0 up to 1, not {self.workers} and {self.share}."
            )

    @property
    def process(self) -> MAP:
        """The arrivals as a MAP."""
        return self.arrivals if isinstance(self.arrivals, MAP) else Poisson(float(self.arrivals))

    @property
    def utilisation(self) -> float:
        """Work that arrives per second of capacity, overheads aside: long batches make those vanish."""
        return self.process.rate * self.per_tuple / (self.workers * self.share)

    @property
    def stable(self) -> bool:
        """Whether batches stay bounded."""
        return self.utilisation < 1.0

    @cached_property
    def _cumulated(self) -> Floats:
        """Arrivals until each slot edge; shared by all copies of this query that differ in capacity only."""
        process = self.process
        memory = max(process.dispersion - 1.0, 0.0) / (2.0 * process.rate)
        wanted = 200.0 * memory / self.trigger
        triggers = int(min(max(wanted, _LEAST_TRIGGERS), _MOST_TRIGGERS))
        counts = sample_counts(
            process, self.trigger / _SLOTS, triggers * _SLOTS, np.random.default_rng(self.seed)
        )
        return np.concatenate([[0.0], np.cumsum(counts)])

    @cached_property
    def _run(self) -> tuple[float, float, float, float, Floats]:
        """Mean response, its standard error, late share, mean batch length, share of tuples per response bin."""
        sums, weights, bins = np.zeros(_GROUPS), np.zeros(_GROUPS), np.zeros(BINS)
        late, batches, busy = run_batches(
            self._cumulated, self.trigger / _SLOTS, self.trigger, self.overhead / self.share,
            self.per_tuple / (self.workers * self.share), sums, weights, bins,
        )  # fmt: skip
        total = max(float(weights.sum()), 1e-300)
        mean = float(sums.sum()) / total
        residuals = sums - mean * weights
        error = sqrt(float(residuals @ residuals) * _GROUPS / (_GROUPS - 1)) / total
        return mean, error, late / max(batches, 1), busy / max(batches, 1), bins / total

    @property
    def mean_response(self) -> float:
        """Mean time from arrival to the end of the tuple's batch, seconds."""
        return self._run[0] if self.stable else inf

    @property
    def error(self) -> float:
        """Standard error of the mean response, seconds; from the spread over twenty stretches of the run."""
        return self._run[1] if self.stable else inf

    @property
    def late_share(self) -> float:
        """Share of the batches that run past their trigger."""
        return self._run[2] if self.stable else 1.0

    @property
    def mean_batch(self) -> float:
        """Mean length of a batch that has tuples, seconds."""
        return self._run[3] if self.stable else inf

    def percentile(self, q: float) -> float:
        """The response time that a share ``q`` of the tuples stays within (0.95 and 95 mean the same)."""
        share = as_share(q)
        if not self.stable:
            return inf
        below = np.concatenate([[0.0], np.cumsum(self._run[4])])
        return float(np.interp(share * below[-1], below, bin_edges(self.trigger)))

    def with_capacity(self, workers: float | None = None, share: float | None = None) -> "MicroBatch":
        """The same query and the same random arrivals with other resources."""
        return self._like(workers=workers or self.workers, share=share or self.share)

    def with_costs(self, overhead: float, per_tuple: float) -> "MicroBatch":
        """The same query and the same random arrivals with batches and tuples of other costs."""
        return self._like(overhead=overhead, per_tuple=per_tuple)

    def _like(self, **changed: float) -> "MicroBatch":
        """Another query under the same arrivals, which are drawn once: that is most of the work."""
        other = replace(self, **changed)  # type: ignore[arg-type]
        other.__dict__["_cumulated"] = self._cumulated
        return other

    def meets(self, target: float, q: float | None = None) -> bool:
        """Whether the mean response (or its percentile ``q``) stays within ``target`` seconds."""
        if not self.stable:
            return False
        return (self.mean_response if q is None else self.percentile(q)) <= target

    def workers_for(self, target: float, q: float | None = None, most: int = 1024) -> int | None:
        """The smallest number of workers that meets the target; None where ``most`` do not either.

        More workers shorten only the part per tuple: no target below the wait for the trigger plus the overhead can
        be met.
        """
        _check_target(target)
        if not self.with_capacity(workers=most).meets(target, q):
            return None
        low, high = 0, 1
        while not self.with_capacity(workers=high).meets(target, q):
            low, high = high, min(2 * high, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.with_capacity(workers=middle).meets(target, q) else (middle, high)
            )
        return high

    def share_for(self, target: float, q: float | None = None, step: float = 0.01) -> float | None:
        """The smallest CPU share, in steps, that meets the target; None where the whole does not either."""
        _check_target(target)
        if not self.with_capacity(share=1.0).meets(target, q):
            return None
        steps = round(1.0 / step)
        low, high = 0, steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.with_capacity(share=middle / steps).meets(target, q) else (middle, high)
            )
        return high / steps


def _check_target(target: float) -> None:
    if not target > 0.0:
        raise PenstockError(f"A response target of {target} s is impossible; give a number above zero.")
