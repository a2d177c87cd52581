"""Keep a fixed configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.observation import Observation
from penstock.policies.places import stages_at


@dataclass(frozen=True, slots=True)
class Static:
    """Bring the plant to a given configuration and keep it there; without one, never change anything.

    ``workers`` sets the workers (or replicas) by place, ``executors`` the executors, ``settings`` any further
    change. It is the baseline of every comparison: the static minimum and the static peak.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> policy = Static(workers={"op": 8})
    >>> _, decision = policy.step(policy.start(), Observation(0.0, 1.0, (StageObservation("op", Capacity.steady(1)),)))
    >>> print(decision.changes[0])
    op workers 8
    """

    workers: Mapping[str, int] = field(default_factory=dict)
    executors: int | None = None
    settings: tuple[Change, ...] = ()
    name: str = "Static"

    def start(self) -> None:
        """Nothing to remember."""

    def step(self, state: None, observation: Observation) -> tuple[None, Decision]:
        """Whatever differs from the configuration is set again."""
        wanted = [Change(Knob.WORKERS, where, count) for where, count in self.workers.items()]
        if self.executors is not None:
            wanted.append(Change(Knob.EXECUTORS, "", self.executors))
        wanted.extend(self.settings)
        missing = tuple(
            c
            for w in wanted
            for c in _where_it_is_set(observation, w)
            if observation.value(c.knob, c.where) not in (None, c.value)
        )
        reason = "the fixed configuration is not set" if missing else "the fixed configuration stays"
        return None, Decision(missing, reason)


def _where_it_is_set(observation: Observation, change: Change) -> list[Change]:
    """The change itself, or one for each pipeline of its region where the region has no such knob."""
    if not change.where or observation.value(change.knob, change.where) is not None:
        return [change]
    return [replace(change, where=stage.name) for stage in stages_at(observation, change.where)]
