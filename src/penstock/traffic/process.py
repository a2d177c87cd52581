"""What every arrival process can do: tell its theory, and run from any mark, in pieces of any length.

An endless process is generated in blocks. Block i draws from a generator of its own, numbered i, and starts from
a state of a few numbers that block i-1 left behind. A mark (block, state, position) is therefore all it takes to go
on exactly where another run stopped, in another process, without generating what came before.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.traffic.seeds import Seeds

Times = Floats

#: Plain numbers in plain lists, so that it survives JSON.
Mark = Sequence[Any]

#: Where a block ends (no later arrival comes before it), then whatever else the process remembers.
State = tuple[float, ...]

#: Arrivals per block, about: small enough to generate one block for a few rows, large enough to vectorise.
BLOCK = 8192


class ArrivalRun(ABC):
    """One realisation of a process, read forwards."""

    @abstractmethod
    def until(self, end: float) -> Times:
        """The arrivals from where the last call stopped up to ``end`` (excluded), in order."""

    @abstractmethod
    def mark(self) -> Mark:
        """Where this run stands; ``process.run(seeds, mark)`` goes on from there."""


class ArrivalProcess(ABC):
    """Arrivals in time. Figures that a process has no theory for are None."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """Mean number of arrivals per second in the long run."""

    @property
    def scv(self) -> float | None:
        """Squared coefficient of variation of the inter-arrival times."""
        return None

    @property
    def dispersion(self) -> float | None:
        """Limit of the index of dispersion of counts; infinite under long memory."""
        return None

    def autocorrelation(self, lags: ArrayLike) -> Times | None:
        """Correlation of inter-arrival times so many arrivals apart."""
        return None

    def dispersion_at(self, seconds: ArrayLike) -> Times | None:
        """Variance over mean of the number of arrivals in windows of these lengths."""
        return None

    @abstractmethod
    def run(self, seeds: Seeds, mark: Mark | None = None) -> ArrivalRun:
        """Start from time 0, or go on from a mark of the same process and seeds."""

    def sample(self, seconds: float, seed: int = 0) -> Times:
        """The arrivals of the first ``seconds``."""
        if not (seconds > 0.0 and np.isfinite(seconds)):
            raise PenstockError(f"A length of {seconds} seconds is impossible; give a number above zero.")
        return self.run(Seeds(seed)).until(seconds)

    def blocks(self, seed: int = 0, seconds: float | None = None) -> Iterator[Times]:
        """The arrivals for ever, in pieces of ``seconds`` (by default about 8192 arrivals each)."""
        run, end = self.run(Seeds(seed)), 0.0
        step = seconds or BLOCK / self.rate
        while True:
            end += step
            yield run.until(end)


class BlockProcess(ArrivalProcess):
    """A process that is generated block by block from a small state."""

    @abstractmethod
    def start(self, rng: np.random.Generator) -> State:
        """The state before the first block; its first number is 0, the time."""

    @abstractmethod
    def block(self, state: State, rng: np.random.Generator) -> tuple[Times, State]:
        """The next arrivals, all from ``state[0]`` to the new state's first number, and that state."""

    def run(self, seeds: Seeds, mark: Mark | None = None) -> ArrivalRun:
        """Start from time 0, or go on from a mark of the same process and seeds."""
        return _BlockRun(self, seeds, mark)


class _BlockRun(ArrivalRun):
    def __init__(self, process: BlockProcess, seeds: Seeds, mark: Mark | None) -> None:
        self._process, self._seeds = process, seeds
        if mark is None:
            self._index, self._state, self._position = 0, process.start(seeds.rng(0)), 0.0
        else:
            self._index, self._state, self._position = int(mark[0]), tuple(mark[1]), float(mark[2])
        self._times, self._after = self._generate(self._state)
        self._times = self._times[np.searchsorted(self._times, self._position, side="left") :]

    def _generate(self, state: State) -> tuple[Times, State]:
        return self._process.block(state, self._seeds.rng(self._index + 1))

    def until(self, end: float) -> Times:
        pieces = []
        while self._after[0] < end:
            pieces.append(self._times)
            self._index, self._state = self._index + 1, self._after
            self._times, self._after = self._generate(self._state)
        cut = int(np.searchsorted(self._times, end, side="left"))
        pieces.append(self._times[:cut])
        self._times, self._position = self._times[cut:], max(end, self._position)
        return np.concatenate(pieces)

    def mark(self) -> Mark:
        return [self._index, list(self._state), self._position]


#: More arrivals than this are not generated: a file of them would fill the disk long before it ends.
MOST_ARRIVALS = 1e10


def check_size(rate: float, seconds: float, most: float = MOST_ARRIVALS) -> None:
    """Refuse a stream that would never be finished."""
    if not rate * seconds <= most:
        raise PenstockError(
            f"{rate:g} arrivals a second over {seconds:g} seconds are more than {most:g}; "
            "choose a lower rate or a shorter time."
        )


def check_rate(rate: float) -> None:
    """Refuse a rate that no stream can have."""
    if not (rate > 0.0 and np.isfinite(rate)):
        raise PenstockError(f"A rate of {rate} per second is impossible; give a number above zero.")
