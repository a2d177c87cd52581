"""What keeps any policy from doing harm, written once and outside the policies.

Each guard is a small function that lets a change pass, makes it smaller, or drops it, and says so in words.
They run in this order: rollback of the last change; changes that change nothing; bounds; the largest step;
changes that were undone before; growth while capacity is still arriving; shrinking while a backlog is worked
off; cooldown; changes per hour; the common limit of workers.

Changes of one place stand or fall together: a routing for two workers makes no sense where the second worker was
refused. Where one of them is dropped all are, and where an amount is cut down those that were made for the full
amount are dropped.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import floor, inf, isnan

from penstock.core import allocation, rollback
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError, unknown
from penstock.core.observation import Observation, RegionObservation
from penstock.core.rollback import RollbackRule, RollbackState


@dataclass(frozen=True, slots=True)
class Bound:
    """Least and most of one knob, at one stage or region or (without a place) everywhere.

    A region's holds for each of its stages. A place that the plant does not have is refused with the known ones as soon
    as something is to be changed.
    """

    knob: Knob
    low: float
    high: float
    where: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise PenstockError(
                f"Bounds {self.low:g}..{self.high:g} of {self.knob} contradict; give 0 <= low <= high."
            )


@dataclass(frozen=True, slots=True)
class Guards:
    """Configuration of the guards; None switches one off.

    >>> Guards(bounds=(Bound(Knob.WORKERS, 1, 8),), cooldown=10.0).cooldown
    10.0
    """

    bounds: tuple[Bound, ...] = ()
    total_workers: int | None = None  # workers of all stages together, each counted by itself
    cooldown: float = 0.0  # seconds between two changes of the same knob and place
    cooldown_shrink: float | None = None  # the same before a shrinking; None: as cooldown
    max_ratio: float | None = None  # largest change per step as a share of what is planned now
    max_step: Mapping[Knob, float] = field(
        default_factory=dict
    )  # largest change per step by knob, in its unit
    catch_up: float | None = 2.0  # no shrinking while the backlog exceeds so many seconds of arrivals
    wait_for_arrivals: bool = True  # no growth while capacity asked for earlier is still arriving
    max_changes_per_hour: int | None = None
    rollback: RollbackRule | None = None

    def __post_init__(self) -> None:
        if self.cooldown < 0 or (self.cooldown_shrink is not None and self.cooldown_shrink < 0):
            raise PenstockError("A cooldown is negative; give seconds, 0 for none.")
        if self.max_ratio is not None and self.max_ratio <= 0:
            raise PenstockError("max_ratio must be above 0; give None for no limit.")


@dataclass(frozen=True, slots=True)
class GuardState:
    """When each knob was changed last, the changes of the last hour, and the rollback's memory."""

    changed: tuple[tuple[Knob, str, float], ...] = ()
    hour: tuple[float, ...] = ()
    rollback: RollbackState = field(default_factory=RollbackState)

    def last(self, knob: Knob, where: str) -> float:
        """When that knob was changed last; minus infinity if never."""
        return next((t for k, w, t in self.changed if k is knob and w == where), -inf)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision that may be applied, and what the guards did to the policy's wish."""

    decision: Decision
    notes: tuple[str, ...] = ()
    source: str = "policy"  # or "rollback"


_Guard = Callable[[Guards, GuardState, Observation, Change], tuple[Change | None, str]]


def check(
    guards: Guards, state: GuardState, observation: Observation, decision: Decision
) -> tuple[GuardState, Verdict]:
    """Pass a policy's decision through all guards."""
    notes: list[str] = []
    if guards.rollback is not None:
        overdue = _overdue(guards, state.rollback.changes, observation)
        memory, undo, note = rollback.judge(guards.rollback, state.rollback, observation, overdue)
        state = replace(state, rollback=memory)
        if undo is not None:
            return state, Verdict(undo, (), "rollback")
        notes += [note] if note else []
    if decision.changes:
        _refuse_unknown_places(guards, observation)
    groups: dict[str, list[Change]] = {}
    for change in decision.changes:
        groups.setdefault(_place(observation, change), []).append(change)
    changes = []
    for together in groups.values():
        passed, said = _together(guards, state, observation, together)
        changes += passed
        notes += said
    limited, note = _total(guards, observation, changes)
    limited, said = _still_meant(decision.changes, changes, limited)
    notes += ([note] if note else []) + said
    return state, Verdict(decision.with_changes(limited), tuple(notes))


def _refuse_unknown_places(guards: Guards, observation: Observation) -> None:
    """A bound for a place that does not exist would hold nothing."""
    known = {s.name for s in observation.stages} | {s.region for s in observation.stages if s.region}
    known |= {r.name for r in observation.regions}
    for bound in guards.bounds:
        if bound.where and known and bound.where not in known:
            raise unknown("stage or region", bound.where, known)


def _place(observation: Observation, change: Change) -> str:
    """Where changes belong together: a region with its pipelines, a stage, the whole application.

    Shedding stands for itself: it must work at once, whatever becomes of the rest.
    """
    if change.knob is Knob.SHEDDING:
        return f"shedding of {change.where}"
    stage = next((s for s in observation.stages if s.name == change.where), None)
    return stage.region if stage is not None and stage.region else change.where


def _together(
    guards: Guards, state: GuardState, observation: Observation, wanted: list[Change]
) -> tuple[list[Change], list[str]]:
    """What the guards leave of the changes of one place, and what they say."""
    notes: list[str] = []
    whole: list[Change] = []
    cut: list[Change] = []
    refused: Change | None = None
    for change in wanted:
        made, said = _guarded(guards, state, observation, change)
        notes += said
        if made is None and said:
            refused = change
        elif made is not None:
            (whole if made == change else cut).append(made)
    if refused is not None:
        notes += [f"{c} dropped: it came with {refused}" for c in whole + cut]
        return [], notes
    if cut and whole:
        notes += [f"{c} dropped: it was meant for more than {cut[0]}" for c in whole]
        return cut, notes
    return whole + cut, notes


def _guarded(
    guards: Guards, state: GuardState, observation: Observation, wanted: Change
) -> tuple[Change | None, list[str]]:
    change: Change | None = wanted
    notes = []
    for guard in _GUARDS:
        if change is not None:
            change, note = guard(guards, state, observation, change)
            notes += [note] if note else []
    return change, notes


def _still_meant(
    wanted: tuple[Change, ...], before: list[Change], limited: list[Change]
) -> tuple[list[Change], list[str]]:
    """Drop what was made for other numbers of workers than the common limit left."""
    if limited == before:
        return limited, []
    asked = {c.where: c.value for c in wanted if c.knob is Knob.WORKERS}
    given = {c.where: c.value for c in limited if c.knob is Knob.WORKERS}
    gone = [
        c
        for c in limited
        if c.knob is not Knob.WORKERS and c.where in asked and given.get(c.where) != asked[c.where]
    ]
    said = [f"{c} dropped: it was meant for {asked[c.where]:g} workers" for c in gone]
    return [c for c in limited if c not in gone], said


def register(
    guards: Guards,
    state: GuardState,
    observation: Observation,
    changes: tuple[Change, ...],
    on_probation: bool = True,
) -> GuardState:
    """Remember changes that were applied; ``on_probation=False`` keeps them off probation (dry run, rollback)."""
    now = observation.time
    counted = [c for c in changes if c.knob is not Knob.SHEDDING]
    kept = tuple(e for e in state.changed if not any(c.knob is e[0] and c.where == e[1] for c in changes))
    memory = state.rollback
    if guards.rollback is not None and counted:
        grows = any(_growth(observation, c) > 0 for c in counted)
        if on_probation:
            overdue = _overdue(guards, counted, observation)
            memory = rollback.begin(memory, observation, tuple(counted), grows, overdue)
        else:
            memory = replace(memory, probation=None)
    return GuardState(
        changed=(*kept, *((c.knob, c.where, now) for c in changes)),
        hour=(*(t for t in state.hour if t > now - 3600), *([now] if counted else [])),
        rollback=memory,
    )


def _growth(observation: Observation, change: Change) -> float:
    """How much more of a resource the change asks for; pipelines count by their number."""
    now = observation.value(change.knob, change.where)
    if now is None:
        return 0.0
    if change.knob is Knob.PIPELINES and isinstance(now, tuple):
        return len(change.sequence) - len(now)
    return change.number - now if change.knob.resource and not isinstance(now, tuple) else 0.0


def _unchanged(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    same = observation.value(change.knob, change.where) == change.value
    return (None if same else change), ""


def _undone_before(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    if guards.rollback is not None and rollback.refused(state.rollback, change):
        return None, f"{change} refused: it was undone before under this load"
    return change, ""


def _arriving(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    capacity = observation.capacity(change.knob, change.where)
    if (
        guards.wait_for_arrivals
        and capacity is not None
        and capacity.arriving
        and _growth(observation, change) > 0
    ):
        asked = max(capacity.planned, capacity.requested)
        return None, f"{change} held back: {capacity.observed:g} of {asked:g} have arrived"
    return change, ""


def _catching_up(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    if _growth(observation, change) < 0 and (backlog := _behind(guards, observation, change.where)):
        return None, f"{change} held back: a backlog of {backlog:.0f} tuples is being worked off"
    return change, ""


def _overdue(guards: Guards, changes: Iterable[Change], observation: Observation) -> bool:
    """Whether a backlog is being worked off at any place of these changes."""
    return any(_behind(guards, observation, change.where) > 0 for change in changes)


def _behind(guards: Guards, observation: Observation, where: str) -> float:
    """Tuples that wait for a place; 0 where they are no more than may wait."""
    backlog, rate = _backlog(observation, where)
    most = inf if guards.catch_up is None else guards.catch_up * max(rate, 1e-9)
    return backlog if backlog > most and backlog >= 1 else 0.0


def _backlog(observation: Observation, where: str) -> tuple[float, float]:
    """What waits for a place, and how fast it comes; a stage that does not tell gets what waits for those before it."""
    place = observation.place(where)
    if place is None:
        stages = observation.stages
    else:
        stages = observation.pipelines(where) if isinstance(place, RegionObservation) else (place,)
        if all(isnan(s.backlog) for s in stages):
            names = {s.name for s in stages}
            stages = tuple(s for s in observation.stages if names.intersection(s.downstream))
    backlog = sum(s.backlog for s in stages if not isnan(s.backlog))
    rates = [s.arrival_rate for s in stages if not isnan(s.arrival_rate)]
    return backlog, max(rates, default=0.0)


def _bounded(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    if not change.knob.scalar:
        return change, ""
    value = change.number
    for bound in guards.bounds:
        if bound.knob is change.knob and bound.where in ("", change.where, _place(observation, change)):
            value = min(max(value, bound.low), bound.high)
    capacity = observation.capacity(change.knob, change.where)
    why = "the bounds"
    if capacity is not None and capacity.limit < value:
        value, why = capacity.limit, capacity.limited_by or why
    return _changed(observation, change, value, why)


def _stepped(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    now = observation.value(change.knob, change.where)
    if not change.knob.resource or now is None or isinstance(now, tuple):
        return change, ""
    step = guards.max_step.get(change.knob, inf)
    if guards.max_ratio is not None:
        share = guards.max_ratio * now
        step = min(step, max(1.0, floor(share)) if change.knob.whole else share)
    value = min(max(change.number, now - step), now + step)
    return _changed(observation, change, value, "the largest step")


def _changed(observation: Observation, change: Change, value: float, why: str) -> tuple[Change | None, str]:
    """The change with another value; None where nothing is left of it."""
    if value == change.number:
        return change, ""
    note = f"{change} limited to {value:g} by {why}"
    if observation.value(change.knob, change.where) == value:
        return None, note
    return Change(change.knob, change.where, value), note


def _cooled(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    shrinking = _growth(observation, change) < 0 and guards.cooldown_shrink is not None
    needed = guards.cooldown_shrink if shrinking and guards.cooldown_shrink is not None else guards.cooldown
    age = observation.time - state.last(change.knob, change.where)
    if change.knob is not Knob.SHEDDING and age < needed:
        return None, f"{change} held back: the last change was {age:.3g} s ago, the cooldown is {needed:g} s"
    return change, ""


def _hourly(
    guards: Guards, state: GuardState, observation: Observation, change: Change
) -> tuple[Change | None, str]:
    recent = sum(t > observation.time - 3600 for t in state.hour)
    most = guards.max_changes_per_hour
    if most is not None and change.knob is not Knob.SHEDDING and recent >= most:
        return None, f"{change} held back: {recent} changes within the hour, {most} are allowed"
    return change, ""


_GUARDS: tuple[_Guard, ...] = (
    _unchanged, _bounded, _stepped, _undone_before, _arriving, _catching_up, _cooled, _hourly,
)  # fmt: skip


def _total(guards: Guards, observation: Observation, changes: list[Change]) -> tuple[list[Change], str]:
    """Hold the workers of all stages together below the common limit, in proportion.

    A region counts replicas x pipelines. A pipeline split that would pass the limit is dropped.
    """
    touched = [c for c in changes if c.knob in (Knob.WORKERS, Knob.PIPELINES)]
    if guards.total_workers is None or not touched:
        return changes, ""
    planned = {s.name: int(s.workers.planned) for s in observation.stages if not s.region}
    planned |= {r.name: int(r.replicas.planned) for r in observation.regions if r.kind != "source"}
    width = dict.fromkeys(planned, 1) | {r.name: len(r.pipelines) for r in observation.regions}
    wanted = planned | {c.where: int(c.number) for c in touched if c.knob is Knob.WORKERS}
    width |= {c.where: len(c.sequence) for c in touched if c.knob is Knob.PIPELINES}
    total = sum(n * width.get(w, 1) for w, n in wanted.items())
    if total <= guards.total_workers:
        return changes, ""
    note = f"{total} workers wanted, {guards.total_workers} allowed in all: reduced in proportion"
    if any(c.knob is Knob.PIPELINES for c in touched):
        return _total(guards, observation, [c for c in changes if c.knob is not Knob.PIPELINES])[0], note
    threads = allocation.fit([n * width.get(w, 1) for w, n in wanted.items()], guards.total_workers)
    given = {w: max(1, n // width.get(w, 1)) for w, n in zip(wanted, threads, strict=True)}
    fitted = [Change(Knob.WORKERS, w, n) for w, n in given.items() if n != planned.get(w)]
    return [c for c in changes if c.knob is not Knob.WORKERS] + fitted, note
