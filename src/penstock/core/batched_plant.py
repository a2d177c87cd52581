"""Plants that work in micro-batches of their own: each batch hands over its figures and goes on at once."""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.core.capacity import KnobValue
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.merging import merged
from penstock.core.observation import Observation
from penstock.core.plant import Applied

#: The figures of one batch, as the data path has them.
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Effect:
    """Changes that took effect with a batch, what they cost and what they replaced."""

    applied: Applied
    before: Mapping[Change, KnobValue]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch for journal and policy; ``current`` is False for one that ran under an older plan than the present."""

    observation: Observation
    current: bool = True
    effect: Effect | None = None


class BatchedPlant(ABC, Generic[F]):
    """Takes the figures of batches in from the data path and gives them to the controller.

    The inbox holds ``room`` batches. Should the controller be so far behind that it is full, the oldest are dropped and
    counted in ``lost``: the data path never waits.
    """

    def __init__(self, room: int = 4_096) -> None:
        self._inbox: deque[F] = deque(maxlen=room)
        self._lock = threading.Lock()
        self._last: Observation | None = None
        #: Set when a batch came in; whoever waits for it clears it.
        self.arrived = threading.Event()
        self.lost = 0

    def put(self, figures: F) -> None:
        """Hand over a batch; called by the data path after the commit."""
        with self._lock:
            self.lost += len(self._inbox) == self._inbox.maxlen
            self._inbox.append(figures)
        self.arrived.set()

    def reports(self) -> list[BatchReport]:
        """The batches that came in since the last call, oldest first."""
        with self._lock:
            taken = list(self._inbox)
            self._inbox.clear()
        made = []
        for at, figures in enumerate(taken):
            made.append(self.report(figures, newest=at == len(taken) - 1))
        self._last = made[-1].observation if made else self._last
        return made

    def observe(self) -> Observation:
        """The batches since the last call as one observation; the last one again where there were none."""
        fresh = [r.observation for r in self.reports()]
        if fresh:
            return merged(fresh)
        if self._last is None:
            raise PenstockError("No micro-batch has been committed yet.")
        return self._last

    @abstractmethod
    def report(self, figures: F, newest: bool) -> BatchReport:
        """What a batch tells; ``newest`` is False for one that another follows already."""

    @abstractmethod
    def apply(self, decision: Decision) -> Applied:
        """Make the changes from the next batch on."""
