"""A network of operators with CPU shares: the plant of MEAD (II, VI, VII).

Every operator is a FIFO station; with a CPU share of s a tuple takes demand / s. An operator gives a copy of each tuple
it lets pass to everything downstream of it. The response time of a path is the time from a tuple's arrival until the
last operator of the path has done with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Floats, Ints
from penstock.core.capacity import Knob
from penstock.core.decision import Change
from penstock.core.errors import PenstockError
from penstock.core.observation import LastChange, Observation, StageObservation
from penstock.sim.histogram import Histogram
from penstock.sim.plants.station import SimulatedStation
from penstock.sim.plants.virtual import VirtualPlant
from penstock.sim.power import watts
from penstock.sim.setting import Setting
from penstock.sim.summary import dispersion_of, latency_of, scv_of


@dataclass(frozen=True)
class NetworkOperator:
    """One operator: seconds a tuple on a whole core, phases of its Erlang law, share of tuples it lets pass."""

    name: str
    demand: float
    downstream: tuple[str, ...] = ()
    phases: int = 2
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if self.demand <= 0 or self.phases < 1 or not 0 <= self.selectivity <= 1:
            raise PenstockError(
                f"The operator '{self.name}' needs a demand above 0, phases of 1 or more and a selectivity up to 1."
            )


#: The log analysis of MEAD II: a parser feeds a counter and a pattern matcher that needs most of the CPU.
LOG_ANALYSIS = (
    NetworkOperator("parser", 0.30e-3, ("counter", "matcher"), selectivity=0.99),
    NetworkOperator("counter", 0.15e-3),
    NetworkOperator("matcher", 1.25e-3),
)


class OperatorNetwork(VirtualPlant):
    """The plant; operators are given sources first, the first one gets the stream.

    ``work`` gives each tuple a factor of its own on all demands; ``recent`` is how many inter-arrival times are monitored.
    With ``frequencies`` (GHz, rising) each operator's cores can be clocked; demands are those at the highest one. The first
    operator can shed a share of the stream.
    """

    def __init__(
        self,
        arrivals: Floats,
        operators: Sequence[NetworkOperator] = LOG_ANALYSIS,
        share: float = 1.0,
        most_replicas: int = 1,
        seed: int = 0,
        recent: int = 50_000,
        work: Floats | None = None,
        frequencies: tuple[float, ...] = (),
    ) -> None:
        super().__init__()
        self.frequencies = frequencies
        self.operators = {o.name: o for o in operators}
        self._check_order(operators)
        self._arrivals, self._recent = np.ascontiguousarray(arrivals, dtype=np.float64), recent
        n = len(arrivals)
        rng = np.random.default_rng(seed)
        self.stations: dict[str, SimulatedStation] = {}
        self._pass: dict[str, NDArray[np.bool_]] = {}
        copies = self._copies(operators)
        #: What came for an operator since it was served last: those of several others are put in order of time.
        self._came: dict[str, list[tuple[Floats, Ints]]] = {o.name: [] for o in operators}
        for o in operators:
            places = n * copies[o.name]
            demands = rng.gamma(o.phases, o.demand / o.phases, places)
            weights = 1.0 if work is None else np.tile(work, copies[o.name])
            self.stations[o.name] = SimulatedStation(places, demands * weights, 1)
            self._pass[o.name] = rng.random(n) < o.selectivity
            self.settings[Knob.CPU_SHARE, o.name] = Setting(share, 1.0)
            self.settings[Knob.WORKERS, o.name] = Setting(1, most_replicas)
            if frequencies:
                self.settings[Knob.FREQUENCY, o.name] = Setting(frequencies[-1], frequencies[-1])
        self.source, self.sinks = operators[0].name, [o.name for o in operators if not o.downstream]
        self.main = max(self.sinks, key=lambda name: self.operators[name].demand)
        self.settings[Knob.SHEDDING, self.source] = Setting(0.0, 1.0)
        self._fed = self._shed = 0
        #: Tuples shed in the whole run.
        self.shed = 0
        self._left: dict[str, list[Ints]] = {o.name: [] for o in operators}
        self._passed: dict[str, int] = dict.fromkeys(self.operators, 0)
        self._entered: dict[str, int] = dict.fromkeys(self.operators, 0)
        #: Response times of each path, by its sink.
        self.paths = {sink: Histogram() for sink in self.sinks}

    @staticmethod
    def _check_order(operators: Sequence[NetworkOperator]) -> None:
        seen: set[str] = set()
        for o in reversed(operators):
            missing = [d for d in o.downstream if d not in seen]
            if missing:
                raise PenstockError(
                    f"'{o.name}' feeds {missing[0]}, which is not behind it; list sources first."
                )
            seen.add(o.name)

    @staticmethod
    def _copies(operators: Sequence[NetworkOperator]) -> dict[str, int]:
        """How many copies of a tuple may come to each operator: as many as there are ways to it."""
        copies = {o.name: 0 for o in operators}
        copies[operators[0].name] = 1
        for o in operators:
            for child in o.downstream:
                copies[child] += copies[o.name]
        return copies

    # ---- events

    def _run(self, time: float) -> None:
        last = int(np.searchsorted(self._arrivals, time, side="right"))
        rows = self._accepted(np.arange(self._fed, last))
        self._came[self.source].append((self._arrivals[rows], rows))
        self._shed += last - self._fed - len(rows)
        self._fed = last
        for name, operator in self.operators.items():
            station = self.stations[name]
            station.append(*_in_order(self._came[name]))
            self._came[name] = []
            station.run(time, self._speed(name))
            places = station.leave(time)
            self._left[name].append(places)
            ids = station.ids[places]
            through = self._pass[name][ids]
            self._passed[name] += int(through.sum())
            for child in operator.downstream:
                self._came[child].append((station.departure[places][through], ids[through]))
            if name in self.paths:
                responses = station.departure[places] - self._arrivals[ids]
                self.paths[name].add(responses)
                if name == self.main:
                    self.responses.add(responses)

    def _accepted(self, rows: Ints) -> Ints:
        """The rows that are not shed: of every n, evenly."""
        keep = 1.0 - self.setting(Knob.SHEDDING, self.source).amount
        return rows[np.floor((rows + 1) * keep) > np.floor(rows * keep)] if keep < 1 else rows

    def _speed(self, name: str) -> float:
        """How fast a replica works: its CPU share, at the present over the highest frequency."""
        clocked = (
            self.setting(Knob.FREQUENCY, name).amount / self.frequencies[-1] if self.frequencies else 1.0
        )
        return self.setting(Knob.CPU_SHARE, name).amount * clocked

    def _problem(self, change: Change) -> str:
        problem = super()._problem(change)
        if not problem and change.knob is Knob.FREQUENCY:
            near = min(abs(f - change.number) for f in self.frequencies)
            return "" if near < 1e-6 else f"{change.number:g} GHz is not one of the frequencies"
        return problem

    def _change(self, change: Change) -> LastChange:
        super()._change(change)
        if change.knob is Knob.WORKERS:
            self.stations[change.where].resize(int(change.number), self._now)
        return LastChange()

    def unfinished(self) -> Floats:
        """Ages of the tuples on their way to the main sink."""
        inside = [self.stations[n].inside for n in self.operators if self.main in self._reached(n)]
        return self._now - self._arrivals[np.concatenate(inside)]

    def _reached(self, name: str) -> set[str]:
        """The operator and all behind it."""
        below = [self._reached(child) for child in self.operators[name].downstream]
        return {name}.union(*below)

    # ---- observation

    def _observe(self, period: float) -> Observation:
        made = {name: self._stage(name, period) for name in self.operators}
        responses = {name: pair[1] for name, pair in made.items()}
        stages = tuple(pair[0] for pair in made.values())
        extra = {f"latency_{s}": float(responses[s].mean()) for s in self.sinks if len(responses[s])}
        latency = latency_of(responses[self.main])
        return Observation(self._now, period, stages, latency=latency, power=self._power(), extra=extra)

    def _power(self) -> float:
        if not self.frequencies:
            return nan
        return sum(
            watts(
                self.setting(Knob.WORKERS, n).amount * self.setting(Knob.CPU_SHARE, n).amount,
                self.setting(Knob.FREQUENCY, n).amount,
            )
            for n in self.operators
        )

    def _stage(self, name: str, period: float) -> tuple[StageObservation, Floats]:
        station, operator = self.stations[name], self.operators[name]
        share, workers = self.setting(Knob.CPU_SHARE, name), self.setting(Knob.WORKERS, name)
        places = np.concatenate(self._left[name]) if self._left[name] else np.zeros(0, dtype=np.int64)
        self._left[name] = []
        before, self._entered[name] = self._entered[name], station.count
        shed = 0
        if name == self.source:
            shed, self._shed = self._shed, 0
            self.shed += shed
        arrived = station.arrival[before : station.count]
        services = station.departure[places] - station.start[places]
        waits = station.start[places] - station.arrival[places]
        busy = float(services.sum())
        passed, self._passed[name] = self._passed[name], 0
        own = services + waits
        capacity = workers.amount * period
        mean = float(services.mean()) if len(services) else operator.demand / self._speed(name)
        stage = StageObservation(
            name,
            workers=workers.capacity(),
            downstream=operator.downstream,
            arrival_rate=(len(arrived) + shed) / period,
            arrival_scv=scv_of(np.diff(arrived)),
            arrival_dispersion=dispersion_of(arrived, self._now - period, period),
            interarrivals=self._monitored() if name == self.source else None,
            busy_time=busy,
            tuples_in=float(len(places)),
            tuples_out=float(passed),
            backlog=float(station.waiting),
            latency=latency_of(own),
            waiting_time=float(waits.mean()) if len(waits) else nan,
            service_time=mean,
            service_scv=scv_of(services),
            utilisation=len(arrived) * mean / capacity,
            worker_utilisation=(min(busy / capacity, 1.0),) * int(workers.amount),
            cpu_share=share.capacity(),
            frequency=self.setting(Knob.FREQUENCY, name).capacity() if self.frequencies else None,
            shedding=self.setting(Knob.SHEDDING, name).amount if name == self.source else 0.0,
            last_change=self.last_change(name),
            extra={"shed": float(shed)},
        )
        return stage, station.departure[places] - self._arrivals[station.ids[places]]

    def _monitored(self) -> Floats:
        return np.diff(self._arrivals[max(0, self._fed - self._recent - 1) : self._fed])


def _in_order(came: list[tuple[Floats, Ints]]) -> tuple[Floats, Ints]:
    """Tuples of several operators in order of time."""
    if not came:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    times, ids = (np.concatenate(parts) for parts in zip(*came, strict=True))
    if len(came) == 1:
        return times, ids
    order = np.argsort(times, kind="stable")
    return times[order], ids[order]
