"""How many rows of a pane one worker gets before the next one takes over: the pane stage's strategies.

A strategy is a frozen configuration; ``start`` and ``step`` carry its state from sample to sample. The threshold
theta of the state says when a partition is full: infinity never splits, 1 deals out row by row.

==========  ==============================================================================================
``PB_RR``   panes in turn to the workers, never split
``TB_RR``   rows in turn to the workers, every pane on all of them
``AS``      a pane moves to the least loaded worker each time theta = mean + std of recent partitions is full
``AS_PID``  theta = alpha (mean + std); a PID on the utilisation moves alpha, so as to split no more than needed
==========  ==============================================================================================

(PPQ 4.1.2, Elastic-PPQ 3.1.) Who gets a row is in :mod:`penstock.preference.scheduling`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf, isfinite
from typing import Any, Literal, Protocol

import numpy as np

from penstock.core.errors import PenstockError, unknown
from penstock.preference.pid import Pid, PidState, Relay, RelayState

Strategy = Literal["PB_RR", "TB_RR", "AS", "AS_PID"]

#: Partitions whose sizes make up the statistics, and how many of them must have closed before splitting starts.
RECENT = 50
WARM_UP = 5

#: The gains of the authors' code, and their bound on a step of alpha.
GAINS = Pid(kp=1.8, ki=0.0, kd=2.0, setpoint=0.9, limit=0.3)


@dataclass(frozen=True)
class SplitState:
    """Threshold now; alpha; sizes of the partitions closed last; memory of controller and relay; gains in use."""

    threshold: float = inf
    alpha: float = 1.0
    closed: int = 0
    recent: tuple[int, ...] = ()
    pid: PidState = field(default_factory=PidState)
    relay: RelayState | None = None
    gains: tuple[float, float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; an infinite threshold is None."""
        value = asdict(self)
        return {**value, "threshold": self.threshold if isfinite(self.threshold) else None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SplitState":
        """The value that ``to_json`` gave."""
        relay, gains = value["relay"], value["gains"]
        return cls(
            threshold=inf if value["threshold"] is None else value["threshold"],
            alpha=value["alpha"],
            closed=value["closed"],
            recent=tuple(value["recent"]),
            pid=PidState(**value["pid"]),
            relay=None
            if relay is None
            else RelayState(
                **{**relay, "switches": tuple(relay["switches"]), "extremes": tuple(relay["extremes"])}
            ),
            gains=None if gains is None else tuple(gains),
        )

    def with_closed(self, sizes: Sequence[int]) -> "SplitState":
        """The state after partitions of these sizes (rows received) have closed."""
        return replace(
            self, closed=self.closed + len(sizes), recent=(*self.recent, *map(int, sizes))[-RECENT:]
        )

    @property
    def base(self) -> float:
        """mean + std of the partitions closed last; infinity in the warm-up."""
        if self.closed < WARM_UP:
            return inf
        return float(np.mean(self.recent) + np.std(self.recent))


class Splitting(Protocol):
    """A pane stage strategy."""

    @property
    def name(self) -> Strategy:
        """Its name in the papers."""

    def start(self) -> SplitState:
        """The state before the first sample."""

    def step(self, state: SplitState, closed: Sequence[int], utilisation: float) -> SplitState:
        """The state after a sample: sizes of the partitions closed in it, and the stage's utilisation."""


@dataclass(frozen=True)
class PaneRoundRobin:
    """``PB_RR``: never split."""

    name: Strategy = field(default="PB_RR", init=False)

    def start(self) -> SplitState:
        """No threshold."""
        return SplitState()

    def step(self, state: SplitState, closed: Sequence[int], utilisation: float) -> SplitState:
        """Keep the statistics, for the eye."""
        return state.with_closed(closed)


@dataclass(frozen=True)
class TupleRoundRobin:
    """``TB_RR``: split as much as can be."""

    name: Strategy = field(default="TB_RR", init=False)

    def start(self) -> SplitState:
        """Row by row."""
        return SplitState(threshold=1.0)

    def step(self, state: SplitState, closed: Sequence[int], utilisation: float) -> SplitState:
        """Keep the statistics, for the eye."""
        return state.with_closed(closed)


@dataclass(frozen=True)
class StatisticSplitting:
    """``AS``: theta = mean + std of the partitions closed last, or a fixed number of rows."""

    threshold: float | None = None
    name: Strategy = field(default="AS", init=False)

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.threshold >= 1:
            raise PenstockError(f"The splitting threshold is {self.threshold}; give at least 1 row.")

    def start(self) -> SplitState:
        """The fixed threshold, or none before the warm-up has passed."""
        return SplitState(threshold=self.threshold or inf)

    def step(self, state: SplitState, closed: Sequence[int], utilisation: float) -> SplitState:
        """Fold in the closed partitions."""
        state = state.with_closed(closed)
        return replace(state, threshold=self.threshold or max(state.base, 1.0))


@dataclass(frozen=True)
class PidSplitting:
    """``AS_PID``: theta = alpha (mean + std), alpha(t) = clamp(alpha(t-1) + PID(utilisation), lowest, highest).

    Utilisation below the set-point: alpha grows and panes are split less; above: alpha shrinks. With ``tune`` a
    relay experiment in the warm-up finds the gains; without, or where it finds no cycle, the fixed ones are used.
    """

    pid: Pid = GAINS
    tune: bool = False
    lowest: float = 0.1
    highest: float = 20.0
    name: Strategy = field(default="AS_PID", init=False)

    def __post_init__(self) -> None:
        if not 0 < self.lowest < self.highest:
            raise PenstockError(
                f"alpha may go from {self.lowest} to {self.highest}; give two positive, ascending bounds."
            )

    @property
    def relay(self) -> Relay:
        """The tuning experiment: pushes of half of what the controller may do."""
        return Relay(push=self.pid.limit / 2 if isfinite(self.pid.limit) else 0.2, setpoint=self.pid.setpoint)

    def start(self) -> SplitState:
        """alpha = 1; the experiment, if any, begins once there are statistics."""
        return SplitState(relay=RelayState() if self.tune else None)

    def step(self, state: SplitState, closed: Sequence[int], utilisation: float) -> SplitState:
        """Fold in the closed partitions, then one step of the relay or of the controller."""
        state = state.with_closed(closed)
        if not isfinite(state.base) or not isfinite(utilisation):
            return state
        state = (
            self._tuning(state, utilisation) if state.relay is not None else self._control(state, utilisation)
        )
        return replace(state, threshold=max(state.alpha * state.base, 1.0))

    def _tuning(self, state: SplitState, utilisation: float) -> SplitState:
        assert state.relay is not None
        relay, change = self.relay.step(state.relay, utilisation)
        if not self.relay.done(relay):
            return replace(state, alpha=self._bounded(state.alpha + change), relay=relay)
        return replace(state, relay=None, gains=self.relay.gains(relay), pid=PidState(last=utilisation))

    def _control(self, state: SplitState, utilisation: float) -> SplitState:
        pid = self.pid
        if state.gains is not None:
            pid = replace(pid, kp=state.gains[0], ki=state.gains[1], kd=state.gains[2])
        held = (state.alpha >= self.highest) - (state.alpha <= self.lowest)
        memory, change = pid.step(state.pid, utilisation, held)
        return replace(state, alpha=self._bounded(state.alpha + change), pid=memory)

    def _bounded(self, alpha: float) -> float:
        return min(max(alpha, self.lowest), self.highest)


def splitting(name: str) -> Splitting:
    """The strategy of a name, with its defaults.

    >>> splitting("TB_RR").start().threshold
    1.0
    """
    strategies: dict[str, Splitting] = {
        s.name: s for s in (PaneRoundRobin(), TupleRoundRobin(), StatisticSplitting(), PidSplitting())
    }
    if name not in strategies:
        raise unknown("splitting strategy", name, strategies)
    return strategies[name]
