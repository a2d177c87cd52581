"""The contract of a plant: what is observed and acted upon."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.core.decision import Change, Decision
from penstock.core.observation import Observation


@dataclass(frozen=True, slots=True)
class Applied:
    """What a plant did with a decision.

    ``pause``, ``delayed`` and ``moved`` are the cost as far as it is known at once (seconds tuples were held
    back, tuples delayed, bytes of state moved); what shows later comes in ``last_change`` of observations.
    ``refused`` names the changes the plant did not make, each with the reason.
    """

    changes: tuple[Change, ...] = ()
    pause: float = 0.0
    delayed: float = 0.0
    moved: float = 0.0
    refused: tuple[tuple[Change, str], ...] = ()


@runtime_checkable
class Plant(Protocol):
    """Something that can be observed and changed: Spark, the simulator, a script in a test."""

    def observe(self) -> Observation:
        """What happened since the last call (or since the start). It does not block, change anything or advance time."""
        ...

    def apply(self, decision: Decision) -> Applied:
        """Begin to make the changes and return without waiting for them to arrive.

        A change that cannot be made is reported in ``refused`` or raises; the rest of the system stays as it was.
        """
        ...


@runtime_checkable
class Maintained(Protocol):
    """A plant that has something to do between decisions, such as asking again for executors that did not arrive."""

    def maintain(self) -> None:
        """Bring what works closer to what is planned; called before each observation, it does not wait."""
        ...


@runtime_checkable
class Clock(Protocol):
    """Time for the loop: the wall clock of a real plant, or the virtual time of a simulated one."""

    def now(self) -> float:
        """Seconds on the plant's clock."""
        ...

    def wait_until(self, time: float) -> bool:
        """Let time pass until then (a simulator runs its events); False when there is nothing more to wait for."""
        ...
