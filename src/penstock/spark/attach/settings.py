"""What an autoscaler is told: bounds, target, policy and guards, checked before anything is touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any

from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError
from penstock.core.guards import Bound, Guards
from penstock.core.metrics import Metric
from penstock.core.policy import AnyPolicy
from penstock.core.rollback import RollbackRule
from penstock.policies.autopilot import Autopilot
from penstock.policies.catalog import policy_named
from penstock.policies.lag import HeldToLag
from penstock.policies.mead import Mead
from penstock.policies.own_process import OwnProcess
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.spark.runtime.starting import PERIOD


@dataclass(frozen=True)
class Settings:
    """Bounds and target of one autoscaler.

    ``executors``: least and most, or None to leave them alone. ``cpu``: a share every executor is held to, or ascending
    levels the policy may choose from, or None for no quotas. ``target``: seconds that 95 % of the rows may take from
    arrival to committed result. ``late``: share of the rows that may take longer, where the policy aims at one. ``period``: seconds between two steps. ``target_lag``: rows that may wait at the source.
    ``partition_limit``: whether more slots than partitions of Kafka are no use.
    """

    executors: tuple[int, int] | None = (1, 8)
    cpu: float | Sequence[float] | None = None
    target: float | None = None
    period: float = PERIOD
    dry_run: bool = False
    target_lag: float | None = None
    partition_limit: bool = True
    late: float = 0.05

    def __post_init__(self) -> None:
        if self.executors is not None:
            object.__setattr__(self, "executors", _bounds(self.executors))
        if any(not 0 < share <= 1 for share in self.shares) or list(self.shares) != sorted(set(self.shares)):
            raise PenstockError(
                f"CPU shares must ascend within (0, 1], not {self.cpu}; use 0.5 or (0.4, 0.7, 1.0)."
            )
        if self.target is not None and not (_is_number(self.target) and 0 < self.target < inf):
            raise PenstockError(f"The target must be a number above 0 seconds, not {self.target!r}.")
        if self.target_lag is not None and not (_is_number(self.target_lag) and self.target_lag > 0):
            raise PenstockError(f"The target_lag must be a number above 0 rows, not {self.target_lag!r}.")
        if not (_is_number(self.period) and self.period >= 0.1):
            raise PenstockError(f"The period must be a number of at least 0.1 seconds, not {self.period!r}.")

    @property
    def scales(self) -> bool:
        """Whether executors or CPU shares may be changed."""
        return not self.dry_run and (self.executors is not None or self.cpu is not None)

    @property
    def shares(self) -> tuple[float, ...]:
        """The CPU shares as levels; none where CPU is left alone."""
        if self.cpu is None:
            return ()
        given: Any = self.cpu
        levels = tuple(given) if isinstance(given, tuple | list) else (given,)
        if not levels or not all(map(_is_number, levels)):
            raise PenstockError(
                f"CPU shares must be numbers within (0, 1], not {self.cpu!r}; use 0.5 or (0.4, 0.7, 1.0)."
            )
        return tuple(map(float, levels))

    @property
    def initial_share(self) -> float:
        """Executors begin with the most they may have: too much is cheaper than too late."""
        return self.shares[-1]


def _bounds(given: Any) -> tuple[int, int]:
    """Least and most executors, or one sentence on what is wrong with them."""
    pair = isinstance(given, tuple | list) and len(given) == 2
    if not pair or not all(isinstance(count, Integral) for count in given):
        raise PenstockError(
            f"The bounds of executors must be two whole numbers, not {given!r}; use (1, 8), (4, 4) for four at any time, "
            "or None to leave them alone."
        )
    least, most = map(int, given)
    if not 1 <= least <= most:
        raise PenstockError(
            f"The bounds of executors contradict: {least} to {most}; the least must be 1 or more "
            "and not above the most."
        )
    return least, most


def _is_number(given: object) -> bool:
    """Types are no promise: who attaches may write "5"."""
    return isinstance(given, Real)


def default_guards(settings: Settings) -> Guards:
    """Guards against what users of other autoscalers suffer from.

    No scale-down while a backlog is worked off or soon after a change; no growth while executors are still starting;
    a growth that did not make rows faster is undone and remembered, unless a backlog was worked off meanwhile; at most 60
    changes an hour.
    """
    bounds = []
    if settings.executors is not None:
        least, most = settings.executors
        bounds += [Bound(Knob.EXECUTORS, least, most), Bound(Knob.WORKERS, least, most)]
    if settings.shares:
        bounds.append(Bound(Knob.CPU_SHARE, settings.shares[0], settings.shares[-1]))
    return Guards(
        bounds=tuple(bounds),
        cooldown=settings.period,
        cooldown_shrink=max(15.0, 3 * settings.period),
        catch_up=2.0,
        wait_for_arrivals=True,
        max_changes_per_hour=60,
        rollback=RollbackRule(
            metric=Metric.LATENCY_MEAN,
            # Fewer executors make rows slower, which is the point of releasing them: only a plain failure is undone.
            worse_by=2.0,
            gain=0.0,
            settle=2 * settings.period,
            samples=3,
            memory=1800.0,
        ),
    )


def choose(policy: AnyPolicy | str | None, settings: Settings) -> AnyPolicy:
    """A policy object as it is, or one by name with parameters that fit the settings; ``Threshold`` unless given."""
    surroundings = Surroundings(
        PlantKind.MICRO_BATCHES, settings.executors, settings.target, settings.period, settings.shares,
        late=settings.late,
    )  # fmt: skip
    chosen = policy_named("Threshold" if policy is None else policy, surroundings)
    # Rehearsals and fits, and the loops that these compile at first, would share the interpreter with the program that runs the query.
    safe = OwnProcess(chosen) if isinstance(chosen, Autopilot | Mead) else chosen
    if settings.target_lag is None or settings.executors is None:
        return safe
    return HeldToLag(safe, settings.target_lag, limits=settings.executors)
