"""A live run of ``penstock bench elastic`` while it is watched, and figures over the time of that.

What has not come to an end when the time is over counts too: workers up to that moment, and what waits with the age that it
has by then. A run that falls behind would otherwise look the better the longer its last batch takes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from penstock import policies
from penstock.core.arrays import Floats
from penstock.core.capacity import Knob

#: Seconds between two looks at a run.
LOOK = 0.1

F = TypeVar("F")


class Run(Protocol):
    """What is watched."""

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""

    def stop(self) -> None:
        """End it."""

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for its end; raises what ended it."""


@dataclass(frozen=True)
class Watched(Generic[F]):
    """The batches of a run: those of its warm-up, those that ended in its time, and those that its stop let come to an end."""

    before: list[F]
    seen: list[F]
    after: list[F]
    #: When it was watched, in seconds since 1970.
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it was watched."""
        return self.ended - self.began

    @property
    def known(self) -> list[F]:
        """All batches that had ended when the time was over."""
        return [*self.before, *self.seen]


def watched(
    run: Run, batches: list[F], spec: Mapping[str, Any], look: Callable[[], None] | None = None
) -> Watched[F]:
    """Watch a run that has just started and adds to ``batches``, after its warm-up; then stop it.

    ``look`` is called ten times a second. A run that ends by itself raises what ended it.
    """
    while not batches:
        _go_on(run, LOOK)
    _go_on(run, spec["warm_up"])
    first, began = len(batches), time.time()
    _go_on(run, spec["seconds"], look)
    last, ended = len(batches), time.time()
    run.stop()
    return Watched(batches[:first], batches[first:last], batches[last:], began, ended)


def _go_on(run: Run, seconds: float, look: Callable[[], None] | None = None) -> None:
    until = time.time() + seconds
    while (left := until - time.time()) > 0:
        if not run.is_active:
            run.await_termination()  # raises what ended it
            raise RuntimeError("The run ended before its time was over, and nobody knows why.")
        if look is not None:
            look()
        time.sleep(min(LOOK, left))


def over_time(steps: Sequence[tuple[float, float]], began: float, ended: float) -> float:
    """The integral of what changes in steps: (when, value from then on); the first value is that of before, too.

    >>> over_time([(5.0, 1.0), (15.0, 3.0)], 10.0, 20.0)
    20.0
    """
    times = [began, *(min(max(at, began), ended) for at, _ in steps[1:]), ended]
    return sum(value * (b - a) for (a, b), (_, value) in zip(pairwise(times), steps, strict=True))


def changes(values: Sequence[Any]) -> float:
    """How often one differs from that before it."""
    return float(sum(a != b for a, b in pairwise(values)))


def percentile(values: Sequence[float] | Floats, weights: Sequence[float] | Floats, percent: float) -> float:
    """A percentile of values that stand for so many each; nan where there are none.

    >>> percentile([1.0, 9.0], [94, 6], 95.0), percentile([1.0, 9.0], [96, 4], 95.0)
    (9.0, 1.0)
    """
    if not np.sum(weights) > 0:
        return float("nan")
    return float(np.quantile(values, percent / 100, weights=weights, method="inverted_cdf"))


def policy_of(spec: Mapping[str, Any]) -> Any:
    """The policy that a specification has words for, {"name": "Threshold", "limits": [1, 3]}; None where it has none.

    >>> policy_of({"policy": {"name": "Threshold", "limits": [1, 3]}}).limits
    (1, 3)
    """
    if "policy" not in spec:
        return None
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["policy"].items()}
    if "knob" in given:
        given["knob"] = Knob(given["knob"])
    return getattr(policies, given.pop("name"))(**given)
