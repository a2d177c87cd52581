"""Kubernetes' horizontal pod autoscaler: the ratio rule with stabilisation windows and bounds on the pace.

For every metric (kubernetes.io: Horizontal Pod Autoscaling, algorithm details)

    desired = ceil(current x value / target)       unless |value / target - 1| <= tolerance (0.1)

and the largest of them counts. A lag is a metric of type AverageValue, as KEDA makes it of a topic:

    desired = ceil(total lag / lag a replica may have)

Growing takes the smallest wish of the last ``up_window`` seconds (0), shrinking the largest of the last
``down_window`` (300), that of the start among them. Within ``pace`` seconds (15) it grows by at most 100 % or 4 replicas, whichever is more, and may
shrink by everything: the defaults of ``behavior``. A pod's CPU cannot be used beyond its limit; the utilisation here is
arrivals over what can be served and tells how far behind a stage is, which makes this the stronger of the two.
"""

from dataclasses import dataclass
from math import isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.policies.places import Place, check_scaling, places, within


@dataclass(frozen=True, slots=True)
class HpaState:
    """Wishes of each place within the longer window, and how many there were at times within the pace."""

    wishes: tuple[tuple[str, tuple[tuple[float, int], ...]], ...] = ()
    counts: tuple[tuple[str, tuple[tuple[float, int], ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Hpa:
    """Keep the utilisation, the lag, or both at their targets by the ratio of value to target.

    utilisation: the one aimed at, None to leave it out. lag: tuples a replica may have waiting (KEDA's
    ``lagThreshold``), None to leave it out.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> stage = StageObservation("op", Capacity.steady(4), utilisation=1.05)
    >>> _, decision = Hpa().step(HpaState(), Observation(1.0, 1.0, (stage,)))
    >>> print(decision.changes[0])
    op workers 6
    """

    utilisation: float | None = 0.7
    lag: float | None = None
    tolerance: float = 0.1
    up_window: float = 0.0
    down_window: float = 300.0
    pace: float = 15.0
    grow_share: float = 1.0
    grow_least: int = 4
    knob: Knob = Knob.WORKERS
    limits: tuple[int, int] = (1, 64)
    where: str = ""
    name: str = "Hpa"

    def __post_init__(self) -> None:
        check_scaling("Hpa", self.knob, self.limits)
        if self.utilisation is None and self.lag is None:
            raise PenstockError("Hpa needs a utilisation or a lag to aim at; give utilisation=0.7.")
        if any(v is not None and v <= 0 for v in (self.utilisation, self.lag)):
            raise PenstockError("Hpa needs targets above 0.")
        if min(self.tolerance, self.up_window, self.down_window, self.pace, self.grow_share) < 0:
            raise PenstockError("Hpa needs a tolerance, windows, a pace and a share of at least 0.")

    def start(self) -> HpaState:
        """No wishes yet."""
        return HpaState()

    def step(self, state: HpaState, observation: Observation) -> tuple[HpaState, Decision]:
        """The ratio rule for each place, within the windows and the pace."""
        wishes, counts = dict(state.wishes), dict(state.counts)
        changes, words = [], []
        for place in places(observation, self.knob, self.where):
            now, at = place.planned, observation.time
            wish, why = self._wish(place)
            longest = max(self.up_window, self.down_window)
            # What there is counts as the first wish, so that a start with little load waits for the window too.
            earlier = wishes.get(place.where, ((at - observation.period, now),))
            wishes[place.where] = (*_recent(earlier, at, longest + 1e-9), (at, wish))
            # What was there before a growth that is as old as the pace is no longer what it may be paced by.
            counts[place.where] = (*_recent(counts.get(place.where, ()), at, self.pace - 1e-9), (at, now))
            wanted = self._paced(self._stable(wishes[place.where], now, at), counts[place.where])
            held = "" if wanted == wish else f", {wanted} for now"
            words.append(f"{place.stage.name}: {why} asks for {wish}{held}")
            if wanted != now:
                changes.append(Change(self.knob, place.where, wanted))
        after = HpaState(tuple(wishes.items()), tuple(counts.items()))
        return after, Decision(tuple(changes), "; ".join(words) or "nothing here to scale")

    def _wish(self, place: Place) -> tuple[int, str]:
        """The largest wish of the metrics that are known."""
        present = max(1.0, place.capacity.observed)
        wishes: list[tuple[float, str]] = []
        if self.utilisation is not None and not isnan(place.stage.utilisation):
            ratio = place.stage.utilisation / self.utilisation
            near = abs(ratio - 1) <= self.tolerance
            wishes.append(
                (place.planned if near else present * ratio, f"utilisation {place.stage.utilisation:.2f}")
            )
        if self.lag is not None and not isnan(place.stage.backlog):
            ratio = place.stage.backlog / self.lag / present
            near = abs(ratio - 1) <= self.tolerance
            wishes.append((place.planned if near else present * ratio, f"lag {place.stage.backlog:.4g}"))
        if not wishes:
            return place.planned, "no metric"
        count, why = max(wishes)
        return within(count, self.limits), why

    def _stable(self, wishes: tuple[tuple[float, int], ...], now: int, at: float) -> int:
        """No higher than every wish of the window for growing, no lower than any of that for shrinking."""
        lowest = min(w for t, w in wishes if at - t <= self.up_window + 1e-9)
        highest = max(w for t, w in wishes if at - t <= self.down_window + 1e-9)
        return max(now, lowest) if lowest > now else min(now, highest)

    def _paced(self, wanted: int, counts: tuple[tuple[float, int], ...]) -> int:
        """At most so much more than the fewest within the pace."""
        fewest = min(count for _, count in counts)
        return min(wanted, max(counts[-1][1], fewest + max(int(self.grow_share * fewest), self.grow_least)))


def _recent(kept: tuple[tuple[float, int], ...], now: float, seconds: float) -> tuple[tuple[float, int], ...]:
    return tuple((time, count) for time, count in kept if now - time <= seconds)
