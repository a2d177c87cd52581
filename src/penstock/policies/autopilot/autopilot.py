"""Which policy? Rehearse them all on this run's own arrivals and costs, and do what the best one would do.

Every candidate has a *rehearsal*: a miniature of the query (:mod:`penstock.policies.autopilot.shadow`) that gets the arrivals
of the real run at the costs measured in it and is controlled by the candidate. Over what is remembered, a rehearsal's score is

    late    rows whose result came after the target, over all rows
    worst   those of the minute that had the most of them, over all rows
    cost    executor-seconds a minute

Fit is a candidate with  late + worst <= bound = allowed T / (T + 500 s)  after T seconds of rehearsal, or late no more than
half a point above the most executors: its worst minute may come again, and the shorter the rehearsal was, the more what is
to come may differ. ``allowed`` is the share of rows that may be
late from now on: less than the share asked for where many were late in the real run so far, more where hardly any were
(:mod:`penstock.policies.autopilot.budget`). Of the fit ones the one with the least  cost (1 + late / (5 bound))  leads (bound: the larger of the two), and
its rehearsal's number of executors is the plan. What was never met cannot be rehearsed: a minute whose load breaks the record
M1 of all minutes before, and, where that record stands far above the second highest M2, one that stands higher still. So

    executors = round(rehearsal's executors x spare),      spare = max(load of this minute / M1,  1 + (M1 - M2) / (2 M1))

It starts with the most executors, leads by rehearsals after ``learn`` seconds, changes the leader only for one that is
cheaper by ``hysteresis`` or when the leader is no longer fit, and takes control back to the most executors for
``probation`` seconds when the real rows are late while its rehearsal says they are not.
"""

from dataclasses import dataclass, field, replace
from math import isfinite, isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.policy import AnyPolicy
from penstock.policies.autopilot.budget import Budget
from penstock.policies.autopilot.candidates import default_candidates
from penstock.policies.autopilot.rehearsal import (
    Meter,
    Rehearsal,
    Score,
    measured,
    rehearsed,
    relief,
    scaled_stage,
    score,
)
from penstock.policies.places import check_scaling, within
from penstock.policies.shared_executors import as_one_query

#: Seconds of rehearsal after which half of the late share may be used: surprises and changes of the leader need the rest.
DOUBT = 500.0
#: How many points more than the most executors anybody may be late.
NEAR_PEAK = 0.005
#: How much dearer a candidate counts that is as late as it may be.
PRICE = 0.2
#: Seconds at the beginning (a quarter of a shorter learning) that do not count: every rehearsal starts with the executors that the run happened to have.
START_UP = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class AutopilotState:
    """The costs measured, the rehearsals, who leads, since when it rehearses, until when the guard has the control."""

    meter: Meter = field(default_factory=Meter)
    rehearsals: tuple[tuple[str, Rehearsal], ...] = ()
    leader: str = ""
    begun: float | None = None
    guarded: float = -1.0
    apart: int = 0  # steps in which reality and rehearsal parted
    peaks: tuple[tuple[int, float], ...] = ()  # minute -> its largest load
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True)
class Autopilot:
    """Do what the best of the ``candidates`` would do, judged on what this run has met so far.

    target: seconds within which rows should have their result. late: share of rows that may be later. candidates:
    policies for executors, by default fixed sizes and several settings of ``Ds2``, ``Hpa`` and ``Threshold`` within
    ``limits``. memory: seconds that count for the scores.

    >>> policy = Autopilot(target=5.0, limits=(1, 8))
    >>> policy.start().leader
    ''
    """

    target: float = 5.0
    late: float = 0.05
    candidates: tuple[AnyPolicy, ...] = ()
    limits: tuple[int, int] = (1, 16)
    memory: float = 3600.0
    learn: float = 240.0
    hysteresis: float = 0.05
    probation: float = 120.0
    name: str = "Autopilot"

    def __post_init__(self) -> None:
        check_scaling("Autopilot", Knob.EXECUTORS, self.limits)
        if self.target <= 0 or not 0 < self.late < 1 or min(self.memory, self.learn, self.probation) < 0:
            raise PenstockError(
                "Autopilot needs a target above 0, a late share within (0, 1) and no negative times."
            )
        names = [c.name for c in self.candidates]
        if len(set(names)) < len(names):
            raise PenstockError(
                "Two candidates of Autopilot have the same name; give each a name of its own."
            )

    @property
    def rehearsing(self) -> tuple[AnyPolicy, ...]:
        """The candidates."""
        return self.candidates or default_candidates(self.limits)

    def start(self) -> AutopilotState:
        """Nothing rehearsed."""
        return AutopilotState()

    def step(self, state: AutopilotState, observation: Observation) -> tuple[AutopilotState, Decision]:
        """Rehearse another period, choose, and plan what the leader's rehearsal plans."""
        observation = as_one_query(observation, observation.stages)
        state = replace(state, meter=measured(state.meter, observation))
        costs = state.meter.costs
        if costs is None or observation.executors is None:
            return state, self._safe(observation, "the costs of rows and batches are not known yet")
        state = self._rehearse(state, observation)
        now = observation.time
        if now < state.guarded - 1e-9:
            return state, self._safe(observation, "rows were late that the rehearsal had in time")
        if state.begun is None or now - state.begun < self.learn - 1e-9:
            return state, self._safe(observation, f"rehearsing for {now - (state.begun or now):.0f} s so far")
        scores = {name: score(rehearsal, costs, self.target) for name, rehearsal in state.rehearsals}
        state = self._lead(state, scores)
        state = self._guard(state, observation)
        if now < state.guarded - 1e-9:
            return state, self._safe(observation, "rows are late that the rehearsal has in time")
        return state, self._follow(state, observation, scores)

    def _rehearse(self, state: AutopilotState, observation: Observation) -> AutopilotState:
        assert state.meter.costs is not None
        pairs = [(c.name, c) for c in self.rehearsing]
        pairs = pairs if "Maximum" in dict(pairs) else [("Maximum", _peak(self.limits)), *pairs]
        begun = observation.time - observation.period if state.begun is None else state.begun
        counts = observation.time - begun > min(START_UP, self.learn / 4) + 1e-9
        rehearsals = rehearsed(
            dict(state.rehearsals), pairs, observation, state.meter.costs, self.target, self.memory, counts
        )
        stage = scaled_stage(observation)
        load = 0.0 if stage is None else stage.arrival_rate * state.meter.costs.service
        minute = int(observation.time // 60)
        peaks = dict(state.peaks)
        peaks[minute] = max(load, peaks.get(minute, 0.0))
        kept = tuple((m, p) for m, p in peaks.items() if 60 * (minute - m) <= self.memory)
        budget = state.budget
        if counts and stage is not None and isfinite(stage.tuples_out):
            budget = budget.after(
                stage.tuples_out, _told(observation, stage), self.target, observation.period, self.memory
            )
        return replace(state, rehearsals=tuple(rehearsals.items()), begun=begun, peaks=kept, budget=budget)

    def _lead(self, state: AutopilotState, scores: dict[str, Score]) -> AutopilotState:
        """The cheapest that is fit leads; the present one stays unless it is unfit or another cheaper by far."""
        peak = scores["Maximum"]
        allowed = state.budget.allowed(self.late)
        bound, least = allowed * peak.seconds / (peak.seconds + DOUBT), peak.late + NEAR_PEAK
        fit = {name: s for name, s in scores.items() if s.late + s.worst <= bound or s.late <= least}
        priced = {name: s.cost * (1 + PRICE * s.late / max(bound, least)) for name, s in fit.items()}
        leader = min(priced, key=lambda name: (priced[name], fit[name].changes))
        if state.leader in fit and priced[leader] >= (1 - self.hysteresis) * priced[state.leader]:
            leader = state.leader
        return replace(state, leader=leader)

    def _guard(self, state: AutopilotState, observation: Observation) -> AutopilotState:
        """Count steps in which real rows are late and the leader's are not; six of them take the control back.

        A step in which no batch has ended tells nothing.
        """
        rehearsal = dict(state.rehearsals)[state.leader]
        seconds = observation.measure(Metric.LATENCY_MEAN)
        if isnan(seconds):
            return state
        slow = seconds > self.target
        last = rehearsal.last
        promised = last.rows > 0 and last.late <= self.late * last.rows
        apart = state.apart + 1 if slow and promised else 0
        if apart < 6:
            return replace(state, apart=apart)
        return replace(state, apart=0, guarded=observation.time + self.probation)

    def _follow(self, state: AutopilotState, observation: Observation, scores: dict[str, Score]) -> Decision:
        rehearsal = dict(state.rehearsals)[state.leader]
        assert state.meter.costs is not None
        spare = _spare(state.peaks, observation.time)
        planned = round(rehearsal.shadow.planned * spare)
        more = relief(rehearsal, observation, state.meter.costs, self.target)
        wanted = within(planned + more, self.limits)
        now = observation.value(Knob.EXECUTORS)
        if isinstance(now, int | float) and _slow(observation, 0.5 * self.target):
            wanted = max(wanted, within(now, self.limits))  # rows are slow: nothing is given back
        changes = _changes(observation, wanted)
        chosen = scores[state.leader]
        slots = state.meter.costs.slots
        reason = f"{_in_words(state.leader, chosen, slots)} on the last {chosen.seconds / 60:.0f} minutes"
        others = sorted((s.cost, n) for n, s in scores.items() if n != state.leader and s.cost < chosen.cost)
        if others:
            reason += f"; {_in_words(others[-1][1], scores[others[-1][1]], slots)}"
        if planned != rehearsal.shadow.planned:
            reason += f"; {spare:.0%} of its {rehearsal.shadow.planned:g}, since the highest load so far stands alone"
        if more:
            reason += f"; {more:g} more for the backlog"
        return Decision(changes, reason, {Metric.EXECUTORS: float(wanted)})

    def _safe(self, observation: Observation, why: str) -> Decision:
        changes = _changes(observation, self.limits[1])
        return Decision(changes, f"the most executors, {self.limits[1]}: {why}")


def _peak(limits: tuple[int, int]) -> AnyPolicy:
    from penstock.policies.static import Static

    return Static(executors=limits[1], name="Maximum")


def _changes(observation: Observation, wanted: int) -> tuple[Change, ...]:
    now = observation.value(Knob.EXECUTORS)
    return () if now is None or now == wanted else (Change(Knob.EXECUTORS, "", wanted),)


def _told(observation: Observation, stage: StageObservation) -> Latency:
    """The response times of the whole, or of the stage where the plant tells them there."""
    return stage.latency if isnan(observation.latency.mean) else observation.latency


def _slow(observation: Observation, bound: float) -> bool:
    """Whether rows take longer than that, or wait for a batch that has not ended yet."""
    seconds = observation.measure(Metric.LATENCY_MEAN)
    return seconds > bound or (isnan(seconds) and observation.measure(Metric.BACKLOG) > 0)


def _in_words(name: str, s: Score, slots: float) -> str:
    return f"`{name}`: {s.late:.1%} late and {s.cost * slots:.0f} core-seconds a minute"


def _spare(peaks: tuple[tuple[int, float], ...], now: float) -> float:
    """How much more than rehearsed to take, by the highest loads of the minutes before and that of this minute."""
    minute = int(now // 60)
    before = sorted((load for m, load in peaks if m < minute and not isnan(load)), reverse=True)
    present = max((load for m, load in peaks if m == minute and not isnan(load)), default=0.0)
    if not before or before[0] <= 0:
        return 1.0
    gap = (before[0] - before[1]) / before[0] if len(before) > 1 else 0.0
    return max(present / before[0], 1.0 + gap / 2)
