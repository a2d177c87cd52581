"""The parallelism of every operator in one step, from true processing rates (DS2, OSDI 2018; Flink's autoscaler).

The *true rate* of an operator is what one instance processes in a second of useful work, waiting left out. With the
rate that the sources produce and the selectivities on the way, the rate that each operator must keep up with follows
for all of them at once:

    demand_i   = source rate,  or the sum over what feeds i of  demand_j selectivity_j
    instances  = ceil(demand_i / true rate_i)

Flink's autoscaler, which is DS2 in use, asks for more than that (names of its options in brackets):

    needed_i   = demand_i / utilisation  +  backlog_i / catch_up  +  demand_i restart / catch_up

utilisation is the one aimed at [target.utilization 0.7], catch_up the time in which a backlog is to be worked off
[catch-up.duration], restart the time for which a change stops the job [restart.time]. Nothing is changed while the
present capacity is enough for the utilisation plus ``boundary`` and not too much for the utilisation minus it
[target.utilization.boundary 0.3]. Means are taken over ``window`` seconds [metrics.window], and after a change nothing
is decided for ``settle`` seconds [stabilization.interval]. At most ``shrink`` of the instances are given back at once
[scale-down.max-factor 0.6: four tenths stay]. A growth that brought less than ``effect`` of what it promised is not repeated
[scaling.effectiveness.detection, threshold 0.1]; one that brought it, when it had settled, is not judged again. Flink's times are minutes, since it restarts the job; here executors
come while the query goes on, so the defaults are seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from math import isfinite, isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.policies.places import Place, check_scaling, places, within


@dataclass(frozen=True, slots=True)
class Seen:
    """What one observation told of a place: when, the demand, the true rate of one instance, what waits."""

    time: float
    demand: float
    rate: float
    backlog: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The last growth of a place: capacity before it and the capacity it promised."""

    before: float
    promised: float


@dataclass(frozen=True, slots=True)
class Ds2State:
    """What was seen of each place within the window, when something was changed last, and the last growths."""

    seen: tuple[tuple[str, tuple[Seen, ...]], ...] = ()
    changed: float | None = None
    grown: tuple[tuple[str, Growth], ...] = ()


@dataclass(frozen=True, slots=True)
class Ds2:
    """Instances for the present rates in one step, with the safeguards of Flink's autoscaler.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> stage = StageObservation("op", Capacity.steady(2), arrival_rate=900.0, service_time=0.005, utilisation=2.25)
    >>> policy = Ds2(restart=0.0)
    >>> _, decision = policy.step(policy.start(), Observation(1.0, 1.0, (stage,)))
    >>> print(decision.changes[0])  # 4.5 instances' work at 70 %
    op workers 7
    """

    utilisation: float = 0.7
    boundary: float = 0.3
    catch_up: float = 60.0
    restart: float = 5.0
    window: float = 15.0
    settle: float = 15.0
    shrink: float = 0.6
    effect: float = 0.1
    knob: Knob = Knob.WORKERS
    limits: tuple[int, int] = (1, 64)
    where: str = ""
    name: str = "Ds2"

    def __post_init__(self) -> None:
        check_scaling("Ds2", self.knob, self.limits)
        if not 0 < self.utilisation <= 1 or not 0 <= self.boundary < 1 or not 0 < self.shrink <= 1:
            raise PenstockError("Ds2 needs utilisation and shrink within (0, 1] and boundary within [0, 1).")
        if self.catch_up <= 0 or min(self.restart, self.window, self.settle, self.effect) < 0:
            raise PenstockError("Ds2 needs catch_up above 0 and no negative times.")

    def start(self) -> Ds2State:
        """Nothing seen."""
        return Ds2State()

    def step(self, state: Ds2State, observation: Observation) -> tuple[Ds2State, Decision]:
        """Average; size every place for its demand where the present capacity is out of bounds."""
        here = places(observation, self.knob, self.where)
        demands = demand_of_stages(observation)
        state = replace(state, seen=self._remember(state, observation, here, demands))
        if state.changed is not None and observation.time - state.changed < self.settle - 1e-9:
            return state, Decision.keep("letting the last change settle")
        kept, grown, changes, words = dict(state.seen), dict(state.grown), [], []
        for place in here:
            seen, growth = kept.get(place.where, ()), grown.get(place.where)
            if growth is not None and seen and not self._ineffective(place.planned * _rate(seen), growth):
                del grown[place.where]  # it has helped; what rows cost later is not its fault
            wanted, why = self._size(place, seen, grown.get(place.where))
            words.append(f"{place.stage.name}: {why}")
            if wanted == place.planned:
                continue
            changes.append(Change(self.knob, place.where, wanted))
            rate = kept[place.where][-1].rate
            grown[place.where] = Growth(place.planned * rate, wanted * rate)
        state = replace(state, grown=tuple(grown.items()))
        if changes:  # capacities of before say nothing of what is to come
            state = Ds2State(changed=observation.time, grown=state.grown)
        return state, Decision(tuple(changes), "; ".join(words) or "nothing here to scale")

    def _remember(
        self, state: Ds2State, observation: Observation, here: list[Place], demands: dict[str, float]
    ) -> tuple[tuple[str, tuple[Seen, ...]], ...]:
        before = dict(state.seen)
        for place in here:
            demand, rate = demands.get(place.stage.name, place.stage.arrival_rate), place.true_rate
            if isfinite(demand) and isfinite(rate) and rate > 0:
                waiting = 0.0 if isnan(place.stage.backlog) else place.stage.backlog
                recent = [
                    s for s in before.get(place.where, ()) if observation.time - s.time < self.window - 1e-9
                ]
                before[place.where] = (*recent, Seen(observation.time, demand, rate, waiting))
        return tuple(before.items())

    def _size(self, place: Place, seen: tuple[Seen, ...], growth: Growth | None) -> tuple[int, str]:
        """How many instances, and why."""
        now = place.planned
        if not seen or now < 1:
            return now, "rates not known"
        demand = sum(s.demand for s in seen) / len(seen)
        rate = _rate(seen)
        lag = seen[-1].backlog / self.catch_up
        capacity = now * rate
        most = demand / min(1.0, self.utilisation + self.boundary) + lag
        least = demand / max(1e-3, self.utilisation - self.boundary) + lag + self._restart(demand)
        need = f"{demand:.4g} tuples/s for {now} at {rate:.4g} each"
        if most <= capacity <= least:
            return now, f"{need} are within {self.utilisation:g} +- {self.boundary:g}"
        needed = (demand / self.utilisation + lag + self._restart(demand)) / rate
        wanted = within(max(needed, (1 - self.shrink) * now) if needed < now else needed, self.limits)
        if wanted > now and growth is not None and self._ineffective(capacity, growth):
            return now, f"{need} are too few, but the last growth brought nothing"
        return wanted, f"{need} need {needed:.3g}"

    def _restart(self, demand: float) -> float:
        return demand * self.restart / self.catch_up

    def _ineffective(self, capacity: float, growth: Growth) -> bool:
        expected = growth.promised - growth.before
        return expected > 0 and (capacity - growth.before) / expected < self.effect


def _rate(seen: Sequence[Seen]) -> float:
    """The true processing rate of an instance, on average."""
    return sum(s.rate for s in seen) / len(seen)


def demand_of_stages(observation: Observation) -> dict[str, float]:
    """Tuples a second that each stage must keep up with when all before it do: from the sources on.

    What feeds a stage comes before it, however many stages are on the way; a stage in a cycle is left out.
    """
    stages = {s.name: s for s in observation.stages}
    fed = {n: tuple(s.name for s in observation.stages if n in s.downstream) for n in stages}
    demands: dict[str, float] = {}
    try:
        order = tuple(TopologicalSorter(fed).static_order())
    except CycleError:
        order = tuple(n for n in stages if not fed[n])
    for name in order:
        above = [stages[n] for n in fed[name]]
        demands[name] = (
            sum(demands[s.name] * _passed(s) for s in above) if above else stages[name].arrival_rate
        )
    return demands


def _passed(stage: StageObservation) -> float:
    return stage.selectivity if isfinite(stage.selectivity) else 1.0
