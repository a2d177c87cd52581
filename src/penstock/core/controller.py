"""The control loop: observe, decide, guard, apply, record. One loop for every plant."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from penstock.core import guards as guarding
from penstock.core.decision import Decision
from penstock.core.guards import Guards, GuardState, Verdict
from penstock.core.journal import Journal
from penstock.core.observation import Observation
from penstock.core.plant import Applied, Clock, Plant
from penstock.core.policy import Policy

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ControllerState(Generic[S]):
    """All that the loop remembers; can be pickled and given to a new loop after a restart."""

    policy: S
    guards: GuardState = field(default_factory=GuardState)
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one step; ``applied`` is None where nothing was to be done or could be done."""

    observation: Observation
    wanted: Decision
    decision: Decision
    notes: tuple[str, ...] = ()
    mode: str = ""  # "", dry-run, paused, rollback or failed
    applied: Applied | None = None


class Controller(Generic[S]):
    """Runs a policy on a plant, survives both, and writes all of it to the journal.

    A policy that raises decides nothing in that step and keeps its last good state. A plant that fails to
    observe costs the step; one that fails to apply costs the change, and the next step tries again. Each failure
    stands in the journal every time and goes to ``notify`` once. A journal that cannot be written is told once too.

    ``record_observations=False`` is for plants that write their observations themselves.
    """

    def __init__(
        self,
        plant: Plant,
        policy: Policy[S],
        guards: Guards | None = None,
        journal: Journal | None = None,
        *,
        dry_run: bool = False,
        state: ControllerState[S] | None = None,
        notify: Callable[[str], None] | None = None,
        record_observations: bool = True,
    ) -> None:
        self.plant, self.policy = plant, policy
        self._notify, self._told = notify, set[str]()
        self.guards, self.journal = guards or Guards(), _Careful(journal or Journal(), self._tell)
        self.dry_run, self._record = dry_run, record_observations
        self.state: ControllerState[S] = state or ControllerState(policy.start())
        self._paused = threading.Event()
        self._time = 0.0

    def pause(self) -> None:
        """Go on observing and deciding, but change nothing until :meth:`resume`."""
        self._paused.set()

    def resume(self) -> None:
        """Act again."""
        self._paused.clear()

    @property
    def paused(self) -> bool:
        """Whether the loop is paused."""
        return self._paused.is_set()

    def step(self) -> Step | None:
        """One step; None when the plant could not be observed."""
        try:
            observation = self.plant.observe()
        except Exception as error:  # noqa: BLE001 - whatever a plant raises, the query under control goes on
            self._warn("plant", f"The plant could not be observed: {_told(error)}")
            return None
        self._time = observation.time
        if self._record:
            self.journal.observation(observation)
        wanted, failed = self._decide(observation)
        guard_state, verdict = guarding.check(self.guards, self.state.guards, observation, wanted)
        self.state = replace(self.state, guards=guard_state, steps=self.state.steps + 1)
        return self._act(observation, wanted, verdict, failed)

    def _decide(self, observation: Observation) -> tuple[Decision, bool]:
        try:
            policy_state, wanted = self.policy.step(self.state.policy, observation)
        except Exception as error:  # noqa: BLE001 - a policy is user code
            self._warn("policy", f"The policy {self.policy.name} failed: {_told(error)}")
            return Decision.keep("the policy failed"), True
        self.state = replace(self.state, policy=policy_state)
        return wanted, False

    def _act(self, observation: Observation, wanted: Decision, verdict: Verdict, failed: bool) -> Step:
        decision, notes = verdict.decision, verdict.notes
        mode = "rollback" if verdict.source == "rollback" else "failed" if failed else ""
        mode = "dry-run" if self.dry_run else "paused" if self.paused else mode
        self.journal.decision(observation.time, self.policy.name, decision, wanted, notes, mode)
        applied = None
        if decision.changes and mode not in ("dry-run", "paused"):
            applied = self._apply(observation, verdict)
        elif decision.changes and mode == "dry-run":
            # Cooldowns count as if the change had been made, or the same wish would be recorded every step.
            self._register(observation, verdict, decision.changes, trial=False)
        return Step(observation, wanted, decision, notes, mode, applied)

    def _apply(self, observation: Observation, verdict: Verdict) -> Applied | None:
        try:
            applied = self.plant.apply(verdict.decision)
        except Exception as error:  # noqa: BLE001 - whatever a plant raises, the query under control goes on
            changes = ", ".join(map(str, verdict.decision.changes))
            self._warn("plant", f"The plant could not apply {changes}: {_told(error)}")
            return None
        for change, why in applied.refused:
            self._warn("plant", f"The plant refused {change}: {why}")
        if applied.changes:
            before = {c: observation.value(c.knob, c.where) for c in applied.changes}
            self.journal.reconfiguration(observation.time, applied, before, verdict.source)
            self._register(observation, verdict, applied.changes, trial=verdict.source == "policy")
        return applied

    def _register(self, observation: Observation, verdict: Verdict, changes: Any, trial: bool) -> None:
        made = guarding.register(self.guards, self.state.guards, observation, changes, trial)
        self.state = replace(self.state, guards=made)

    def _warn(self, source: str, text: str) -> None:
        self.journal.warning(self._time, source, text)
        self._tell(text)

    def _tell(self, text: str) -> None:
        if self._notify is not None and text not in self._told:
            self._told.add(text)
            self._notify(text)


class _Careful(Journal):
    """A journal that may fail (a full disk) without stopping the loop; the failure is told once."""

    def __init__(self, journal: Journal, tell: Callable[[str], None]) -> None:
        self.inner, self._tell = journal, tell

    def put(self, record: dict[str, Any]) -> None:
        """Hand the record on."""
        try:
            self.inner.put(record)
        except (OSError, ValueError) as error:
            self._tell(f"The journal could not be written: {_told(error)}")

    def close(self) -> None:
        """Close the journal itself."""
        self.inner.close()


def run(loop: Controller[Any], clock: Clock, period: float, until: float) -> int:
    """Step every ``period`` seconds until the given time or until the clock ends; the number of steps made.

    Steps that were missed because one took too long are skipped, not made up for.
    """
    steps, due = 0, clock.now() + period
    while due <= until + 1e-9 and clock.wait_until(due):
        loop.step()
        steps += 1
        due = max(due + period, due + period * ((clock.now() - due) // period))
    return steps


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
