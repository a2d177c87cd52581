"""A recorded stream as an arrival process: the arrivals of a trace again, as fast as wanted."""

from dataclasses import dataclass

import numpy as np

from penstock.core.errors import PenstockError
from penstock.traffic.process import ArrivalProcess, ArrivalRun, Mark, Times
from penstock.traffic.seeds import Seeds


@dataclass(frozen=True, eq=False)
class Replay(ArrivalProcess):
    """The arrivals of a trace, ``speed`` times as fast, once or over and over.

    >>> Replay(np.array([0.0, 1.0, 3.0]), speed=2.0).sample(10.0).tolist()
    [0.0, 0.5, 1.5]
    """

    times: Times
    speed: float = 1.0
    loop: bool = False

    def __post_init__(self) -> None:
        if not (self.speed > 0.0 and np.isfinite(self.speed)):
            raise PenstockError(f"A speed of {self.speed} is impossible; give a number above zero.")
        check_arrivals(self.times, "The trace to replay")
        if self.times[0] < 0.0:
            raise PenstockError("The trace to replay starts before time 0; shift its arrivals.")
        if self.loop and not self.times[-1] > 0.0:
            raise PenstockError("A trace whose arrivals are all at time 0 cannot be replayed in a loop.")

    @property
    def _lap(self) -> float:
        """Length of one round: to the last arrival, and one mean gap to the first of the next round."""
        last = float(self.times[-1]) / self.speed
        return last * (1.0 + 1.0 / max(self.times.size - 1, 1))

    @property
    def rate(self) -> float:
        """Arrivals per second over the trace."""
        return self.times.size / self._lap if self.times[-1] > 0.0 else float(self.times.size)

    def run(self, seeds: Seeds, mark: Mark | None = None) -> ArrivalRun:
        """Start from time 0, or go on from a mark; a replay draws nothing, so the seeds do not matter."""
        return _ReplayRun(self, *(mark or (0, 0)))


class _ReplayRun(ArrivalRun):
    def __init__(self, replay: Replay, lap: int, row: int) -> None:
        self._replay, self._lap, self._row = replay, lap, row

    def until(self, end: float) -> Times:
        replay, pieces = self._replay, []
        while True:
            offset = self._lap * replay._lap
            cut = int(np.searchsorted(replay.times, (end - offset) * replay.speed, side="left"))
            pieces.append(replay.times[self._row : cut] / replay.speed + offset)
            self._row = max(cut, self._row)
            if not replay.loop or self._row < replay.times.size:
                return np.minimum(np.concatenate(pieces), np.nextafter(end, 0.0))
            self._lap, self._row = self._lap + 1, 0

    def mark(self) -> Mark:
        return [self._lap, self._row]


def check_arrivals(times: Times, what: str) -> None:
    """Refuse arrivals that are empty, not numbers, or out of order, in one sentence that says where."""
    if times.size == 0:
        raise PenstockError(f"{what} is empty; it needs at least one arrival.")
    if not np.isfinite(times).all():
        row = int(np.flatnonzero(~np.isfinite(times))[0])
        raise PenstockError(f"{what} has no number as arrival in row {row + 1}; remove or mend that row.")
    back = np.flatnonzero(np.diff(times) < 0.0)
    if back.size:
        raise PenstockError(
            f"{what} is not in order of arrival (row {int(back[0]) + 2} is before row {int(back[0]) + 1}); sort it first."
        )
