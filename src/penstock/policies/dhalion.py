"""Symptoms, diagnoses, resolvers and a blacklist of what did not help (Dhalion, VLDB 2017).

*Symptoms* of a stage: back-pressure (share of the time in which input is held back), skew of its workers' work, and
pending tuples. *Diagnoses* from them:

    back-pressure, no skew                       under-provisioned
    back-pressure, skew                          data skew (a new routing of keys helps before more workers do)
    no back-pressure, nothing pending            over-provisioned

*Resolvers*: an under-provisioned stage grows by the share of time in which input was held back over the share in
which it was not, an over-provisioned one shrinks by the factor ``shrink``:

    new = ceil(now (1 + held / (1 - held)))                 new = floor(now shrink)

After an action nothing is done for ``settle`` seconds; then it is judged. A growth after which as much input as before
is held back, and a shrinking after which input is held back at all, did not help: the action from that number of
workers goes to the blacklist for ``memory`` seconds, and a shrinking is taken back. Where a new routing moves nothing or is
blacklisted, the next diagnosis is under-provisioned.
"""

from dataclasses import dataclass, replace
from math import floor, isnan

import numpy as np

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.dataflow.routing import UNEVEN
from penstock.policies.places import Place, check_scaling, places, within
from penstock.policies.rebalance import rebalance

GROW, SHRINK, ROUTE = "grow", "shrink", "route"


@dataclass(frozen=True, slots=True)
class Action:
    """What was done to a place: which action, from how many workers, with how much input held back, when."""

    kind: str
    workers: int
    held: float
    time: float


@dataclass(frozen=True, slots=True)
class DhalionState:
    """The action under judgement of each place, the blacklist (place, action, workers, until), quiet steps."""

    actions: tuple[tuple[str, Action], ...] = ()
    blacklist: tuple[tuple[str, str, int, float], ...] = ()
    quiet: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Dhalion:
    """The policy of the paper for dynamic provisioning.

    held: share of the time with input held back that counts as back-pressure. pending: seconds of work waiting that
    count as pending. patience: steps without a symptom before a stage counts as over-provisioned.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> stage = StageObservation("op", Capacity.steady(2), utilisation=1.5, backlog=90.0)
    >>> _, decision = Dhalion().step(DhalionState(), Observation(1.0, 1.0, (stage,)))
    >>> print(decision.changes[0])
    op workers 3
    """

    held: float = 0.02
    pending: float = 1.0
    skew: float = UNEVEN
    shrink: float = 0.8
    patience: int = 6
    settle: float = 15.0
    memory: float = 600.0
    knob: Knob = Knob.WORKERS
    limits: tuple[int, int] = (1, 64)
    where: str = ""
    name: str = "Dhalion"

    def __post_init__(self) -> None:
        check_scaling("Dhalion", self.knob, self.limits)
        if not 0 <= self.held < 1 or not 0 < self.shrink < 1 or self.patience < 1 or self.skew <= 1:
            raise PenstockError(
                "Dhalion needs held within [0, 1), shrink within (0, 1), patience >= 1 and skew above 1."
            )

    def start(self) -> DhalionState:
        """Healthy, nothing blacklisted."""
        return DhalionState()

    def step(self, state: DhalionState, observation: Observation) -> tuple[DhalionState, Decision]:
        """Detect, diagnose, resolve, place by place; judge what was done before."""
        now = observation.time
        state = replace(state, blacklist=tuple(b for b in state.blacklist if b[3] > now))
        changes, words = [], []
        for place in places(observation, self.knob, self.where):
            state, change, why = self._place(state, observation, place)
            words.append(f"{place.stage.name}: {why}")
            changes += [change] if change is not None else []
        return state, Decision(tuple(changes), "; ".join(words) or "nothing here to scale")

    def _place(
        self, state: DhalionState, observation: Observation, place: Place
    ) -> tuple[DhalionState, Change | None, str]:
        held = place.congestion(observation)
        last = dict(state.actions).get(place.where)
        if isnan(held) or place.planned < 1:
            return state, None, "back-pressure unknown"
        if last is not None and observation.time - last.time < self.settle - 1e-9:
            return state, None, f"judging {last.kind} from {last.workers}"
        if last is not None and place.capacity.arriving:
            return state, None, f"{last.kind} from {last.workers} is on its way"
        if last is not None and not _made(last, place.planned):
            state = replace(state, actions=tuple(a for a in state.actions if a[0] != place.where))
            last = None  # a guard dropped it or took it back: it tells nothing
        if last is not None:
            state, undo = self._judged(state, place, last, held, observation.time)
            if undo is not None:
                return state, undo, f"{last.kind} from {last.workers} did not help and is taken back"
        diagnoses = self._diagnoses(state, observation, place, held)
        quiet = dict(state.quiet)
        quiet[place.where] = 0 if held > self.held else quiet.get(place.where, 0) + 1
        state = replace(state, quiet=tuple(quiet.items()))
        kind, change, why = self._treatment(state, place, held, diagnoses)
        if change is None:
            return state, None, why
        action = Action(kind, place.planned, held, observation.time)
        actions = dict(state.actions) | {place.where: action}
        quiet[place.where] = 0
        return (
            replace(state, actions=tuple(actions.items()), quiet=tuple(quiet.items())),
            change,
            f"{why}: {kind}",
        )

    def _treatment(
        self, state: DhalionState, place: Place, held: float, diagnoses: list[tuple[str, str]]
    ) -> tuple[str, Change | None, str]:
        """The first action that changes something and is not blacklisted; why others before it were left out."""
        barred, words = {b[:3] for b in state.blacklist}, []
        for kind, why in diagnoses:
            if (place.where, kind, place.planned) in barred:
                words.append(f"{why}, but {kind} from {place.planned} is blacklisted")
                continue
            change = self._resolve(kind, place, held)
            words.append(
                f"{why}, but a new routing moves nothing" if kind == ROUTE and change is None else why
            )
            if change is not None:
                return kind, change, "; ".join(words)
        return "", None, "; ".join(words)

    def _diagnoses(
        self, state: DhalionState, observation: Observation, place: Place, held: float
    ) -> list[tuple[str, str]]:
        """(an action that would help, the diagnosis in words), the likeliest first."""
        stage = place.stage
        if held > self.held:
            under = (GROW, f"input held back {held:.0%} of the time (under-provisioned)")
            if _skewed(place, self.skew) and stage.keys is not None and stage.keys.routing:
                skew = f"input held back {held:.0%} of the time, workers uneven (data skew)"
                return [(ROUTE, skew), under]
            return [under]
        served = place.true_rate * place.capacity.observed
        waiting = stage.backlog / served if served > 0 and stage.backlog > 0 else 0.0
        calm = dict(state.quiet).get(place.where, 0) + 1
        if waiting > self.pending or calm < self.patience:
            return [("", f"no back-pressure for {calm} steps, {waiting:.2g} s of work pending")]
        return [(SHRINK, "no back-pressure, nothing pending (over-provisioned)")]

    def _resolve(self, kind: str, place: Place, held: float) -> Change | None:
        now = place.planned
        if kind == ROUTE and place.stage.keys is not None:
            table = rebalance(place.stage.keys, now)
            moved = table != place.stage.keys.routing
            return Change(Knob.ROUTING, place.stage.name, table) if moved else None
        wanted = now
        if kind == GROW:
            wanted = within(now * (1 + held / max(1e-3, 1 - held)), self.limits)
        elif kind == SHRINK:
            wanted = max(self.limits[0], floor(now * self.shrink + 1e-9))
        return Change(self.knob, place.where, wanted) if wanted != now else None

    def _judged(
        self, state: DhalionState, place: Place, last: Action, held: float, now: float
    ) -> tuple[DhalionState, Change | None]:
        """Without the action under judgement; on the blacklist, and undone where it made things worse."""
        state = replace(state, actions=tuple(a for a in state.actions if a[0] != place.where))
        worse = held > self.held if last.kind == SHRINK else held > self.held and held >= last.held
        if not worse:
            return state, None
        entry = (place.where, last.kind, last.workers, now + self.memory)
        state = replace(state, blacklist=(*state.blacklist, entry))
        if last.kind != SHRINK or place.planned >= last.workers:
            return state, None
        return state, Change(self.knob, place.where, min(last.workers, self.limits[1]))


def _made(action: Action, planned: int) -> bool:
    """Whether what was asked for is there."""
    if action.kind == GROW:
        return planned > action.workers
    return action.kind == ROUTE or planned < action.workers


def _skewed(place: Place, ratio: float) -> bool:
    """Whether some worker has much more work than another."""
    each = np.array([u for u in place.stage.worker_utilisation if not isnan(u)])
    return bool(len(each) > 1 and each.max() > ratio * max(each.min(), 1e-9))
