"""Workers of the two stages of a preference query by fuzzy logic (Elastic-PPQ 4.2).

Terms, by their membership grade (rho is the utilisation of a stage, sigma the splitting factor):

    rho    fast: 1 up to 0.5, 0 from 0.9;  acceptable: triangle 0.5 / 0.9 / 1.3;  slow: 0 up to 0.9, 1 from 1.3
    sigma  moderate: 1 up to 1.5, 0 from 4.5;  intensive: 0 up to 1.5, 1 from 4.5

The grades of a variable always add up to 1. A rule holds to the degree of the smallest grade in its condition;
each output is the mean of the rules' constants weighted by these degrees (zero-order Takagi-Sugeno).
"""

from dataclasses import dataclass
from math import ceil, floor, isfinite, isnan

from penstock.core.allocation import fit
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.policies.places import stages_at

FAST, ACCEPTABLE, SLOW = 0, 1, 2
MODERATE, INTENSIVE = 0, 1
ANY = -1
DECREASE, SLIGHT_DECREASE, UNCHANGED, SLIGHT_INCREASE, INCREASE = 0.5, 0.75, 1.0, 1.25, 1.5

#: The utilisation that is neither fast nor slow at all.
MOST_ACCEPTABLE = 0.9

#: (rho of panes, splitting, rho of windows) -> (factor of panes, factor of windows); Table 2.
RULES: tuple[tuple[int, int, int, float, float], ...] = (
    (FAST, ANY, FAST, DECREASE, DECREASE),
    (FAST, ANY, ACCEPTABLE, DECREASE, UNCHANGED),
    (FAST, ANY, SLOW, DECREASE, INCREASE),
    (ACCEPTABLE, MODERATE, FAST, UNCHANGED, DECREASE),
    (ACCEPTABLE, MODERATE, ACCEPTABLE, UNCHANGED, UNCHANGED),
    (ACCEPTABLE, MODERATE, SLOW, UNCHANGED, INCREASE),
    (ACCEPTABLE, INTENSIVE, FAST, SLIGHT_INCREASE, DECREASE),
    (ACCEPTABLE, INTENSIVE, ACCEPTABLE, SLIGHT_INCREASE, UNCHANGED),
    (ACCEPTABLE, INTENSIVE, SLOW, UNCHANGED, INCREASE),
    (SLOW, ANY, FAST, INCREASE, SLIGHT_DECREASE),
    (SLOW, ANY, ACCEPTABLE, INCREASE, SLIGHT_INCREASE),
    (SLOW, ANY, SLOW, SLIGHT_INCREASE, INCREASE),
)
_SPEED = ("fast", "acceptable", "slow")
_SPLIT = ("moderately split", "intensively split")


def speed_grades(rho: float) -> tuple[float, float, float]:
    """Grades of fast, acceptable and slow.

    >>> tuple(round(g, 12) for g in speed_grades(0.6))
    (0.75, 0.25, 0.0)
    """
    fast = min(1.0, max(0.0, (0.9 - rho) / 0.4))
    slow = min(1.0, max(0.0, (rho - 0.9) / 0.4))
    return fast, 1.0 - fast - slow, slow


def splitting_grades(sigma: float) -> tuple[float, float]:
    """Grades of moderate and intensive.

    >>> splitting_grades(3.0)
    (0.5, 0.5)
    """
    intensive = min(1.0, max(0.0, (sigma - 1.5) / 3.0))
    return 1.0 - intensive, intensive


def infer(rho_panes: float, splitting: float, rho_windows: float) -> tuple[float, float]:
    """Factors by which the numbers of pane and window workers should change.

    >>> infer(0.4, 1.0, 0.4), infer(1.3, 1.0, 1.3), infer(0.9, 1.0, 0.9)
    ((0.5, 0.5), (1.25, 1.5), (1.0, 1.0))
    """
    panes, split, windows = speed_grades(rho_panes), splitting_grades(splitting), speed_grades(rho_windows)
    total = first = second = 0.0
    for p, s, w, factor_panes, factor_windows in RULES:
        grade = panes[p] if panes[p] < windows[w] else windows[w]
        if s != ANY and split[s] < grade:
            grade = split[s]
        if grade > 0.0:
            total += grade
            first += grade * factor_panes
            second += grade * factor_windows
    return first / total, second / total


def rounded(workers: int, factor: float, rho: float) -> int:
    """The new number of workers: the nearest integer to workers x factor, with care where there are few.

    A single worker becomes two from a factor of 1.25 on. One, two or three workers grow by at least one where
    they fall behind (rho > 1, factor > 1), since rounding would pin them there; and they never shrink to a number
    whose utilisation would be beyond acceptable (rho x workers over 0.9), since the next step would only grow them again.

    >>> rounded(1, 1.25, 1.1), rounded(2, 1.15, 1.02), rounded(2, 0.75, 0.7), rounded(2, 0.5, 0.5), rounded(8, 0.5, 0.4)
    (2, 3, 2, 2, 4)
    """
    nearest = floor(workers * factor + 0.5)
    if workers > 3:
        return max(1, nearest)
    if factor > 1 and (rho > 1 or factor >= 1.25):
        return max(nearest, workers + 1)
    if factor < 1:
        return min(workers, max(1, nearest, ceil(rho * workers / MOST_ACCEPTABLE - 1e-9)))
    return max(1, nearest)


@dataclass(frozen=True, slots=True)
class Averages:
    """What was seen since the last decision, summed over its seconds, and the last growth of each stage (from, at demand)."""

    since: float | None = None
    count: int = 0
    seconds: float = 0.0
    panes: float = 0.0
    splitting: float = 0.0
    windows: float = 0.0
    grown: tuple[tuple[int, float], tuple[int, float]] = ((0, 0.0), (0, 0.0))


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """Fuzzy logic controller of a two-stage query.

    It decides on every observation, which is what was seen in a period of the run (2.5 s in the paper); with ``interval`` only
    so many seconds after its last decision, on the means over time of what it saw since.
    ``limit`` is the number of workers of both stages together (by default what the plant could give, twice that where the
    stages work in turn on the same workers, 64 where it does not say); beyond it both are reduced in proportion.
    Windows whose utilisation is not known yet, since none has ended, count as neither fast nor slow.
    Further knobs, off unless asked for: with ``frequencies`` (GHz, rising) the numbers of workers are chosen for
    the highest frequency and the frequency is then lowered as far as the utilisation stays at the set-point;
    with ``shedding`` the input that even the whole limit cannot serve is dropped, and no more than that.
    """

    limit: int | None = None
    interval: float = 0.0
    panes: str = "panes"
    windows: str = "windows"
    setpoint: float = 0.9
    frequencies: tuple[float, ...] = ()
    shedding: bool = False
    name: str = "Fuzzy"

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 2:
            raise PenstockError(f"Fuzzy needs a limit of at least 2 workers, one a stage, not {self.limit}.")
        if list(self.frequencies) != sorted(self.frequencies) or any(f <= 0 for f in self.frequencies):
            raise PenstockError("Fuzzy needs frequencies above 0 in rising order.")

    def start(self) -> Averages:
        """Nothing seen."""
        return Averages()

    def step(self, state: Averages, observation: Observation) -> tuple[Averages, Decision]:
        """Take the observation in; decide when the interval is over."""
        if not {self.panes, self.windows} & {n for s in observation.stages for n in (s.name, s.region)}:
            known = ", ".join(s.name for s in observation.stages) or "none"
            return state, Decision.keep(
                f"no stages named {self.panes} and {self.windows}; there are: {known}"
            )
        panes, windows = (stages_at(observation, name)[0] for name in (self.panes, self.windows))
        if isnan(panes.utilisation):
            return state, Decision.keep(f"the utilisation of {panes.name} is unknown")
        seen = self._add(state, observation, panes, windows)
        if seen.since is None or not seen.seconds > 0 or observation.time - seen.since < self.interval - 1e-9:
            return seen, Decision.keep(f"{seen.count} observations towards the next decision")
        return self._decide(seen, observation, panes, windows)

    def _add(
        self, state: Averages, observation: Observation, panes: StageObservation, windows: StageObservation
    ) -> Averages:
        sigma, seconds = 1.0 if isnan(panes.splitting) else panes.splitting, observation.period
        return Averages(
            observation.time - seconds if state.since is None else state.since,
            state.count + 1,
            state.seconds + seconds,
            state.panes + seconds * min(panes.utilisation, 1e6) * self._speed(panes),
            state.splitting + seconds * sigma,
            state.windows + seconds * self._of_windows(windows),
            state.grown,
        )

    def _of_windows(self, stage: StageObservation) -> float:
        known = not isnan(stage.utilisation)
        return min(stage.utilisation, 1e6) * self._speed(stage) if known else MOST_ACCEPTABLE

    def _speed(self, stage: StageObservation) -> float:
        """Present speed over the highest one; utilisations are counted at the highest."""
        if not self.frequencies or stage.frequency is None:
            return 1.0
        return stage.frequency.observed / self.frequencies[-1]

    def _decide(
        self, seen: Averages, observation: Observation, panes: StageObservation, windows: StageObservation
    ) -> tuple[Averages, Decision]:
        rho = (seen.panes / seen.seconds, seen.windows / seen.seconds)
        sigma = seen.splitting / seen.seconds
        factors = infer(rho[0], sigma, rho[1])
        now = (max(1, int(panes.workers.planned)), max(1, int(windows.workers.planned)))
        wanted = [
            self._steady(rounded(n, f, r), n, r, g)
            for n, f, r, g in zip(now, factors, rho, seen.grown, strict=True)
        ]
        wanted = [
            int(min(n, max(1.0, s.workers.limit))) for n, s in zip(wanted, (panes, windows), strict=True)
        ]
        limit = self._limit(panes, windows)
        new = fit(wanted, limit)
        demand = [n * r for n, r in zip(now, rho, strict=True)]
        after = [d / n for d, n in zip(demand, new, strict=True)]
        changes = [
            Change(Knob.WORKERS, s.name, n)
            for s, n, old in zip((panes, windows), new, now, strict=True)
            if n != old
        ]
        changes += self._frequency((panes, windows), after) + self._shed(panes, after, sum(new) >= limit)
        grown = tuple(
            (old, d) if n > old else g for n, old, d, g in zip(new, now, demand, seen.grown, strict=True)
        )
        reason = _words(rho, sigma, factors)
        if sum(wanted) > limit:
            reason += f"; {wanted[0]} + {wanted[1]} workers reduced to the limit of {limit}"
        predicted = {Metric.UTILISATION: max(after)}
        decision = Decision(tuple(changes), reason, predicted, feasible=max(after) <= 1 or sum(new) < limit)
        return Averages(observation.time, grown=(grown[0], grown[1])), decision

    def _limit(self, panes: StageObservation, windows: StageObservation) -> int:
        if self.limit is not None:
            return self.limit
        known = [s.workers.limit for s in (panes, windows) if isfinite(s.workers.limit)]
        if not known:
            return 64
        in_turn = panes.pool != "" and panes.pool == windows.pool
        return max(2, int(sum(known) if in_turn else max(known)))

    def _steady(self, new: int, now: int, rho: float, grown: tuple[int, float]) -> int:
        """With few workers, do not fall back to a number that was outgrown under the same demand."""
        low, demand = grown
        if new <= low <= 3 and now > low and rho * now > 0.9 * demand:
            return low + 1
        return new

    def _frequency(self, stages: tuple[StageObservation, ...], after: list[float]) -> list[Change]:
        changes = []
        for stage, rho in zip(stages, after, strict=True):
            if not self.frequencies or stage.frequency is None:
                continue
            enough = [f for f in self.frequencies if rho * self.frequencies[-1] / f <= self.setpoint]
            wanted = min(enough, default=self.frequencies[-1])
            if wanted != stage.frequency.planned:
                changes.append(Change(Knob.FREQUENCY, stage.name, wanted))
        return changes

    def _shed(self, panes: StageObservation, after: list[float], full_house: bool) -> list[Change]:
        if not self.shedding:
            return []
        # What is shed now is missing from the utilisation that was measured.
        full = max(after) / max(1e-9, 1.0 - panes.shedding)
        share = max(0.0, 1.0 - 1.0 / full) if full_house and full > 1 else 0.0
        share = round(share, 2)
        return [Change(Knob.SHEDDING, panes.name, share)] if abs(share - panes.shedding) >= 0.005 else []


def _words(rho: tuple[float, float], sigma: float, factors: tuple[float, float]) -> str:
    grades = [speed_grades(r) for r in rho]
    names = [_SPEED[g.index(max(g))] for g in grades]
    split = splitting_grades(sigma)
    return (
        f"panes {names[0]} (rho {rho[0]:.2f}) and {_SPLIT[split.index(max(split))]} ({sigma:.2f}), "
        f"windows {names[1]} (rho {rho[1]:.2f}): workers x {factors[0]:.2f} and x {factors[1]:.2f}"
    )
