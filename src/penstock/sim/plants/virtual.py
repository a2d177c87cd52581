"""What all simulated plants share: virtual time, knobs, and the answer to a decision.

A plant is its own clock: ``wait_until`` lets the events up to that time happen. Nothing here or in the plants reads
the wall clock, and all randomness comes from a seed, so a run is the same every time.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

from penstock.core.arrays import Floats
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.observation import LastChange, Observation
from penstock.core.plant import Applied
from penstock.sim.histogram import Histogram
from penstock.sim.setting import Setting


class VirtualPlant(ABC):
    """Base of the simulated plants; a subclass writes ``_run``, ``_observe`` and, where a change costs, ``_changed``."""

    def __init__(self) -> None:
        self._now = self._observed_at = 0.0
        #: What can be turned: (knob, place) -> how much of it there is.
        self.settings: dict[tuple[Knob, str], Setting] = {}
        #: Response times of the whole run.
        self.responses = Histogram()
        self._changes: dict[str, LastChange] = {}  # by place; ``age`` holds the time of the change

    def now(self) -> float:
        """Seconds of virtual time since the start."""
        return self._now

    def wait_until(self, time: float) -> bool:
        """Let everything happen up to this time."""
        if time > self._now:
            self._run(time)
            self._now = time
        return True

    def observe(self) -> Observation:
        """What happened since the last observation; the first covers at least an instant."""
        period = max(self._now - self._observed_at, 1e-9)
        observation = self._observe(period)
        self._observed_at = self._now
        return observation

    def apply(self, decision: Decision) -> Applied:
        """Begin the changes that can be made; the others are refused, each with a reason."""
        made: list[Change] = []
        refused: list[tuple[Change, str]] = []
        cost = LastChange(self._now)
        for change in decision.changes:
            problem = self._problem(change)
            if problem:
                refused.append((change, problem))
                continue
            paid = self._change(change)
            self._changes[change.where] = replace(paid, age=self._now)
            cost = LastChange(
                self._now,
                max(cost.pause, paid.pause),
                cost.delayed + paid.delayed,
                cost.moved + paid.moved,
            )
            made.append(change)
        return Applied(tuple(made), cost.pause, cost.delayed, cost.moved, tuple(refused))

    def setting(self, knob: Knob, where: str = "") -> Setting:
        """One of the knobs."""
        return self.settings[knob, where]

    def last_change(self, where: str) -> LastChange:
        """The last change at a place, as an observation shows it."""
        last = self._changes.get(where)
        return LastChange() if last is None else replace(last, age=self._now - last.age)

    def _problem(self, change: Change) -> str:
        """Why a change cannot be made; empty where it can."""
        setting = self.settings.get((change.knob, change.where))
        if setting is None:
            return f"this plant has no {change.knob} at '{change.where}'"
        if change.number > setting.limit + 1e-9:
            return f"at most {setting.limit:g} are possible"
        if change.knob.whole and change.number < 1:
            return "at least 1 is needed"
        return ""

    def _change(self, change: Change) -> LastChange:
        """Make one change that is possible; what it costs as far as known at once."""
        self.setting(change.knob, change.where).plan(change.number, self._now)
        return LastChange()

    def unfinished(self) -> Floats | None:
        """Ages of all tuples that have come and have no result yet; None where the plant does not follow single ones."""
        return None

    @abstractmethod
    def _run(self, time: float) -> None:
        """Let the events happen from ``self._now`` up to ``time``."""

    @abstractmethod
    def _observe(self, period: float) -> Observation:
        """The observation of the last ``period`` seconds."""
