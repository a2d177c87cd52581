"""Hold any policy to a lag: rows that may wait at the source.

While more rows wait than the lag allows, executors must serve what arrives and work off the excess within ``drain`` seconds:

    needed = ceil((arrival rate + (backlog - lag) / drain) / true rate of an executor)

The policy's own wish stands where it is larger. It may not shrink below what is there while the excess lasts.
"""

from dataclasses import dataclass
from math import isnan
from typing import Any

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.policies.around import Around
from penstock.policies.places import Place, places, within


@dataclass(frozen=True)
class HeldToLag(Around):
    """A policy that is held to a lag.

    policy: who decides otherwise. lag: rows that may wait. drain: seconds in which more than that is to be worked off.
    limits: least and most executors.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> from penstock.policies import Static
    >>> stage = StageObservation("q", Capacity.steady(1), arrival_rate=100.0, backlog=5_000.0, service_time=0.005)
    >>> seen = Observation(0.0, 5.0, (stage,), executors=Capacity.steady(1), slots=1.0)
    >>> policy = HeldToLag(Static(), lag=1_000, drain=20.0)
    >>> print(policy.step(policy.start(), seen)[1].reason)
    the fixed configuration stays; 5000 rows wait and 1000 may: 2 executors to work that off in 20 s
    """

    lag: float
    drain: float = 30.0
    limits: tuple[int, int] = (1, 64)

    def __post_init__(self) -> None:
        if not self.lag > 0 or not self.drain > 0:
            raise PenstockError(f"A lag of {self.lag:g} rows is impossible; give a number of rows above 0.")

    def step(self, state: Any, observation: Observation) -> tuple[Any, Decision]:
        """The policy's decision, raised where the lag asks for more."""
        after, decision = self.policy.step(state, observation)
        found = places(observation, Knob.EXECUTORS)
        backlog = sum(s.backlog for s in observation.stages if not isnan(s.backlog))
        if not found or backlog <= self.lag:
            return after, decision
        needed, why = self._needed(found[0], backlog)
        wished = [c for c in decision.changes if c.knob is Knob.EXECUTORS]
        wish = max((int(c.number) for c in wished), default=found[0].planned)
        if wish >= needed:
            return after, decision
        others = tuple(c for c in decision.changes if c not in wished)
        raised = () if needed == found[0].planned else (Change(Knob.EXECUTORS, "", needed),)
        reason = f"{decision.reason or 'executors stay'}; {why}"
        return after, Decision((*others, *raised), reason)

    def _needed(self, place: Place, backlog: float) -> tuple[int, str]:
        """How many executors, at least, and why."""
        waiting = f"{backlog:.0f} rows wait and {self.lag:.0f} may"
        rate, arrivals = place.true_rate, place.stage.arrival_rate
        if isnan(rate) or isnan(arrivals) or rate <= 0:
            return within(place.planned + 1, self.limits), f"{waiting}: one executor more"
        count = within((arrivals + (backlog - self.lag) / self.drain) / rate, self.limits)
        count = max(place.planned, count)
        return count, f"{waiting}: {count} executors to work that off in {self.drain:.0f} s"
