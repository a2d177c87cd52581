"""The contract of a policy."""

from typing import Any, Protocol, TypeVar, runtime_checkable

from penstock.core.decision import Decision
from penstock.core.observation import Observation

S = TypeVar("S")


@runtime_checkable
class Policy(Protocol[S]):
    """A pure function of (state, observation) to (state, decision).

    The policy object itself is a frozen configuration. Whatever it must remember is in the state, a frozen
    value that can be pickled, so that a step can be replayed, checkpointed and tested. A policy calls no clock
    (time is ``observation.time``) and no random generator that is not part of its state. It must answer with
    a decision whatever the observation lacks: unknown figures are ``nan``.
    """

    @property
    def name(self) -> str:
        """Short name for tables and journals."""
        ...

    def start(self) -> S:
        """The state before the first step."""
        ...

    def step(self, state: S, observation: Observation) -> tuple[S, Decision]:
        """The next state, and what to do now."""
        ...


AnyPolicy = Policy[Any]
