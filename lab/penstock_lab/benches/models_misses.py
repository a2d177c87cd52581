"""Why a fitted process misses the response of a window: a cause for each cell, found by trying it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

import numpy as np

from penstock.core.arrays import Floats
from penstock.models import MAP, Erlang, MapPh1
from penstock.models.lindley import simulate_queue

#: Windows that are drawn from a fit, and the shares of them between which a figure is what chance does.
DRAWN, LIKELY = 40, (0.05, 0.95)
#: How far away a load may be for a window to be at an edge.
NEXT_LOAD = 0.05

#: Cause -> what is so in its cells, in a sentence.
CAUSES = {
    "rate": (
        "with the next window's own rate given to the model the cell is within a factor of 2; at a load of 0.9 a few per cent more or "
        "fewer arrivals double or halve the waiting, and no fit of the window before knows them"
    ),
    "chance": (
        f"the simulated figure is between the {100 * LIKELY[0]:.0f}th and the {100 * LIKELY[1]:.0f}th percentile of {DRAWN} windows of that length "
        "drawn from the fitted process itself, each through a queue that begins empty: the window is too short for its queue to come to "
        "rest, while the model tells of the long run"
    ),
    "edge": (
        f"the model comes within a factor of 2 at a load {NEXT_LOAD:g} higher or lower: the fastest stretch of the window just begins to overload "
        "the server, where the response grows a hundredfold from one load to the next, and a level of the rate is a mean over such stretches"
    ),
    "trend": (
        "none of these: the rate moves one way through the window, or reaches a level once, and a stationary process of at most 16 states "
        "comes back to its levels again and again, so that it is right at one load and wrong at another"
    ),
    "shape": (
        "none of these, on the next window: its bursts are of another size or length than those of the window of the fit, whatever its rate"
    ),
}


@dataclass(frozen=True)
class Miss:
    """A cell that is not within a factor of 2: the process at the rate that is known, its server, and what was simulated."""

    process: MAP
    load: float
    size: int
    figure: str
    simulated: float

    def likely(self, seed: int) -> bool:
        """Whether windows of that length drawn from the process come to such a figure."""
        rng = np.random.default_rng(seed)
        law = Erlang(2, self.load * self.process.mean)
        drawn = [
            figure_of(
                simulate_queue(self.process.sample(self.size, rng), law.sample(self.size, rng)), self.figure
            )
            for _ in range(DRAWN)
        ]
        share = float(np.mean(np.array(drawn) <= self.simulated))
        return LIKELY[0] < share < LIKELY[1]

    def at_an_edge(self) -> bool:
        """Whether the model is right at a load nearby, or too low there on one side and too high on the other."""
        ratios = []
        for load in (self.load - NEXT_LOAD, self.load, self.load + NEXT_LOAD):
            queue = MapPh1(self.process, Erlang(2, load * self.process.mean))
            predicted = queue.mean_response if self.figure == "mean" else queue.percentile(95)
            ratios.append(log(predicted / self.simulated))
        return min(map(abs, ratios)) <= log(2.0) or min(ratios) < 0.0 < max(ratios)

    def cause(self, next_window: bool, rate_is_why: bool, seed: int) -> str:
        """The first of the causes that is so."""
        if rate_is_why:
            return "rate"
        if self.likely(seed):
            return "chance"
        if self.at_an_edge():
            return "edge"
        return "shape" if next_window else "trend"


def figure_of(responses: Floats, figure: str) -> float:
    """Mean or 95th percentile."""
    return float(responses.mean() if figure == "mean" else np.quantile(responses, 0.95))


def told(causes: Iterable[str]) -> str:
    """The sentences of the causes that there are, in their order.

    >>> told(["edge", "edge"]).startswith("*edge*: the model comes within")
    True
    """
    there: Mapping[str, None] = dict.fromkeys(causes)
    return " ".join(f"*{cause}*: {words}." for cause, words in CAUSES.items() if cause in there)
