"""The controller: observe, decide, guard, apply, record. One for every plant, in virtual time and beside a live run."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Generic, TypeVar

from penstock.core import guards as guarding
from penstock.core.batched_plant import BatchedPlant, BatchReport
from penstock.core.careful_journal import CarefulJournal, in_words
from penstock.core.clock import WallClock
from penstock.core.decision import Change, Decision
from penstock.core.guards import Guards, GuardState, Verdict
from penstock.core.journal import Journal
from penstock.core.listeners import Listeners
from penstock.core.merging import merge
from penstock.core.observation import Observation
from penstock.core.plant import Applied, Clock, Maintained, Plant
from penstock.core.policy import Policy
from penstock.core.policy_thread import PolicyThread

S = TypeVar("S")

#: Seconds after which a policy that has not answered is told of.
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class ControllerState(Generic[S]):
    """All that a controller remembers; can be pickled and given to a new one after a restart."""

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


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a policy made of an observation: its next state and its wish, or what went wrong."""

    observation: Observation
    state: Any
    wanted: Decision
    problem: str = ""


class Controller(Generic[S]):
    """Runs a policy on a plant, survives both, and writes all of it to the journal.

    :meth:`step` does one step in the caller's thread, which is how virtual time works (see :func:`run`). :meth:`start`
    makes steps every ``period`` seconds in a thread of the controller, beside the data path, and asks the policy in
    another one. A policy that raises or answers nonsense decides nothing in that step and keeps its last good state; one
    that hangs decides nothing at all, and observing goes on. A plant that fails to observe costs the step; one that fails
    to apply costs the change, and the next step tries again. Each failure stands in the journal every time and goes to
    ``notify`` once; so does a journal that cannot be written, or a listener that raises.

    Every observation is recorded, with or without a policy. A policy gets all of what was seen since its last decision
    as one observation (see :mod:`penstock.core.merging`).

    Parameters
    ----------
    plant
        What is observed and changed. A :class:`~penstock.core.batched_plant.BatchedPlant` is looked at after each batch.
    policy
        Who decides; None records only.
    guards, journal
        What keeps the policy from doing harm; where all is written.
    period
        Seconds between two decisions of a started controller.
    dry_run
        Decide and record, change nothing.
    state
        What an earlier controller remembered.
    notify
        Told each problem once; the log by default.
    active
        A started controller does not look while this says False.
    """

    def __init__(
        self,
        plant: Plant,
        policy: Policy[S] | None = None,
        guards: Guards | None = None,
        journal: Journal | None = None,
        *,
        period: float = 5.0,
        dry_run: bool = False,
        state: ControllerState[S] | None = None,
        notify: Callable[[str], None] | None = None,
        active: Callable[[], bool] = lambda: True,
    ) -> None:
        self.plant, self.policy, self.guards = plant, policy, guards or Guards()
        self.period, self.dry_run, self._active = max(period, 0.0), dry_run, active
        own = journal if isinstance(journal, CarefulJournal) else CarefulJournal(journal or Journal(), notify)
        self.journal = own
        first: Any = policy.start() if policy is not None else None
        self.state: ControllerState[S] = state or ControllerState(first)
        #: Told each observation and each step.
        self.observed, self.stepped = Listeners[Observation](self._listener), Listeners[Step](self._listener)
        self._paused = threading.Event()
        self._stopping = threading.Event()
        self._acting = threading.Lock()  # one thread at a time asks or changes the plant
        self._wake = plant.arrived if isinstance(plant, BatchedPlant) else threading.Event()
        self._thinking = PolicyThread(self._answer_beside, self._wake)
        self._thread: threading.Thread | None = None
        self._seen: Observation | None = None  # since the last decision
        self._time = self._due = self._asked = 0.0
        self._lost = 0

    def start(self) -> "Controller[S]":
        """Begin to step every period, beside the data path."""
        self._thread = threading.Thread(target=self._run, name="penstock-controller", daemon=True)
        self._thread.start()
        return self

    def stop(self, timeout: float = 30.0) -> None:
        """Decide no more; what came in is still recorded. The journal stays open."""
        self._stopping.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)
        elif isinstance(self.plant, BatchedPlant):
            self._look()
        self._thinking.end()

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread is not None and self._thread.is_alive() and not self._stopping.is_set()

    @property
    def policy_cpu(self) -> float:
        """CPU seconds that the policy has used in its thread."""
        return self._thinking.cpu

    def pause(self) -> None:
        """Go on observing and deciding, but change nothing until :meth:`resume`."""
        self._paused.set()

    def resume(self) -> None:
        """Act again."""
        self._paused.clear()

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self._paused.is_set()

    def step(self) -> Step | None:
        """One step now; None when there was nothing to observe, or nobody to decide."""
        self._look()
        seen, self._seen = self._seen, None
        if seen is None or self.policy is None:
            return None
        return self._conclude(self._answer(seen))

    def change(self, *changes: Change, reason: str = "asked for by hand") -> Applied:
        """Make changes now, whatever the policy thinks; it goes on from there."""
        with self._acting:
            applied = self.plant.apply(Decision(changes, reason))
        if applied.changes:
            self.journal.reconfiguration(self._time, applied, {}, "by hand")
        return applied

    def warn(self, source: str, text: str) -> None:
        """Record that something went wrong, and tell it once."""
        self.journal.warn(self._time, source, text)

    def _run(self) -> None:
        clock = WallClock()
        self._due = self.period
        while not self._stopping.is_set():
            late = clock.now() >= self._due
            # Past its time a decision waits for a batch or for the policy, and either wakes this thread.
            self._wake.wait((0.01 if self._pulled else 1.0) if late else self._due - clock.now())
            self._wake.clear()
            try:
                self._tick(clock.now())
            except Exception as error:  # noqa: BLE001 - the data path must not notice, whatever happens here
                self.warn("controller", f"A step of the controller failed: {in_words(error)}")
        if not self._pulled:
            self._look()

    def _tick(self, now: float) -> None:
        on_time = now >= self._due
        if on_time and self._pulled:
            self._due = max(self._due + self.period, now)
        if self._active() and (on_time or not self._pulled):
            self._look()
        if (answer := self._thinking.take()) is not None:
            self._conclude(answer)
        if self._thinking.busy:
            self._mind(now)
        elif on_time and self._seen is not None:
            self._due = self._due if self._pulled else max(self._due + self.period, now)
            seen, self._seen, self._asked = self._seen, None, now
            if self.policy is not None:
                self._thinking.ask(seen)

    def _mind(self, now: float) -> None:
        """Tell of a policy that does not answer."""
        if now - self._asked > PATIENCE:
            self._asked = inf
            self.warn(
                "policy", f"{self._named} has not answered for {PATIENCE:g} s; the run goes on without it."
            )

    @property
    def _pulled(self) -> bool:
        """Whether the plant is looked at every period, not after each batch."""
        return not isinstance(self.plant, BatchedPlant)

    @property
    def _named(self) -> str:
        return f"The policy {getattr(self.policy, 'name', self.policy)}"

    def _look(self) -> None:
        """Let the plant do what it has to do by itself; record what it saw and keep it for the next decision."""
        if isinstance(self.plant, Maintained):
            try:
                with self._acting:
                    self.plant.maintain()
            except Exception as error:  # noqa: BLE001 - whatever a plant raises, the query under control goes on
                self.warn("plant", f"The plant could not look after its capacity: {in_words(error)}")
        try:
            with self._acting:
                reports = _reports(self.plant)
        except Exception as error:  # noqa: BLE001 - see above
            self.warn("plant", f"The plant could not be observed: {in_words(error)}")
            return
        for report in reports:
            self._take(report)
        if isinstance(self.plant, BatchedPlant) and self.plant.lost > self._lost:
            self.warn(
                "controller", f"{self.plant.lost - self._lost} batches were not recorded: too many at once."
            )
            self._lost = self.plant.lost

    def _take(self, report: BatchReport) -> None:
        observation = report.observation
        self._time = observation.time
        self.journal.observation(observation)
        if report.effect is not None:
            self.journal.reconfiguration(
                observation.time, report.effect.applied, report.effect.before, "took effect"
            )
        self.observed.tell(observation)
        if not report.current:
            self._seen = None
        else:
            self._seen = observation if self._seen is None else merge(self._seen, observation)

    def _answer(self, observation: Observation) -> _Answer:
        """What the policy wants; runs in a thread of its own where the controller was started."""
        before: Any = self.state.policy
        try:
            assert self.policy is not None
            after, given = self.policy.step(before, observation)
        except Exception as error:  # noqa: BLE001 - a policy is user code
            return _failure(observation, before, f"{self._named} failed: {in_words(error)}")
        wanted: Any = given  # types are no promise
        if not isinstance(wanted, Decision) or not all(isinstance(c, Change) for c in wanted.changes):
            return _failure(
                observation, before, f"{self._named} answered {wanted!r:.80}, which is no decision."
            )
        return _Answer(observation, after, wanted)

    def _answer_beside(self, observation: Observation) -> _Answer:
        try:
            return self._answer(observation)
        except BaseException as error:  # noqa: BLE001 - even a policy that exits must leave an answer in its thread
            return _failure(observation, self.state.policy, f"{self._named} failed: {in_words(error)}")

    def _conclude(self, answer: _Answer) -> Step:
        """Guard, apply and record what a policy answered."""
        if not answer.problem:
            try:
                return self._carried_out(answer)
            except Exception as error:  # noqa: BLE001 - a decision made of anything at all must not end the controller
                problem = f"The decision of {self._named[4:]} could not be used: {in_words(error)}"
                answer = _failure(answer.observation, self.state.policy, problem)
        self.warn("policy", answer.problem)
        return self._carried_out(answer)

    def _carried_out(self, answer: _Answer) -> Step:
        observation, wanted = answer.observation, answer.wanted
        memory, verdict = guarding.check(self.guards, self.state.guards, observation, wanted)
        self.state = ControllerState(answer.state, memory, self.state.steps + 1)
        step = self._act(observation, wanted, verdict, bool(answer.problem))
        self.stepped.tell(step)
        return step

    def _act(self, observation: Observation, wanted: Decision, verdict: Verdict, failed: bool) -> Step:
        decision, notes = verdict.decision, verdict.notes
        mode = "rollback" if verdict.source == "rollback" else "failed" if failed else ""
        mode = "dry-run" if self.dry_run else "paused" if self.paused else mode
        name = str(getattr(self.policy, "name", self.policy))
        self.journal.decision(observation.time, name, decision, wanted, notes, mode)
        applied = None
        if decision.changes and mode not in ("dry-run", "paused"):
            applied = self._apply(observation, verdict)
        elif decision.changes and mode == "dry-run":
            # Cooldowns count as if the change had been made, or the same wish would be recorded every step.
            self._register(observation, decision.changes, on_probation=False)
        return Step(observation, wanted, decision, notes, mode, applied)

    def _apply(self, observation: Observation, verdict: Verdict) -> Applied | None:
        try:
            with self._acting:
                applied = self.plant.apply(verdict.decision)
        except Exception as error:  # noqa: BLE001 - whatever a plant raises, the query under control goes on
            changes = ", ".join(map(str, verdict.decision.changes))
            self.warn("plant", f"The plant could not apply {changes}: {in_words(error)}")
            return None
        for change, why in applied.refused:
            self.warn("plant", f"The plant refused {change}: {why}")
        if applied.changes:
            before = {c: observation.value(c.knob, c.where) for c in applied.changes}
            self.journal.reconfiguration(observation.time, applied, before, verdict.source)
            self._register(observation, applied.changes, on_probation=verdict.source == "policy")
            self._seen = None  # what came in meanwhile tells of the time before the change
        return applied

    def _register(self, observation: Observation, changes: tuple[Change, ...], on_probation: bool) -> None:
        made = guarding.register(self.guards, self.state.guards, observation, changes, on_probation)
        self.state = replace(self.state, guards=made)

    def _listener(self, text: str) -> None:
        self.warn("listener", text)


def run(controller: Controller[Any], clock: Clock, period: float, until: float) -> int:
    """Step every ``period`` seconds until the given time or until the clock ends; the number of steps made.

    Steps that were missed because one took too long are skipped, not made up for.
    """
    steps, due = 0, clock.now() + period
    while due <= until + 1e-9 and clock.wait_until(due):
        controller.step()
        steps += 1
        due = max(due + period, due + period * ((clock.now() - due) // period))
    return steps


def _reports(plant: Plant) -> list[BatchReport]:
    return plant.reports() if isinstance(plant, BatchedPlant) else [BatchReport(plant.observe())]


def _failure(observation: Observation, state: Any, problem: str) -> _Answer:
    return _Answer(observation, state, Decision.keep("the policy failed"), problem)
