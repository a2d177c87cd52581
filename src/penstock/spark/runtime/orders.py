"""What the driver and a resident worker tell each other over their control connection."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: The sender of rows that come from the driver.
DRIVER = 0xFFFFFFFF


@dataclass(frozen=True)
class Hello:
    """A worker is there: who it is, and where its peers reach it."""

    worker: int
    pid: int
    host: str
    port: int


@dataclass(frozen=True)
class Members:
    """Where the workers are that take part from now on."""

    addresses: Mapping[int, tuple[str, int]]


@dataclass(frozen=True)
class StageWork:
    """One job for a worker: functions one after another, with an exchange between each two.

    ``homes[s][t]`` is the worker that has task t of stage s. ``inputs`` holds, for this worker's tasks of the first
    stage, functions that give their rows; tasks that are not in it get rows from the driver.
    """

    job: int
    functions: tuple[ArrowFunction, ...]
    homes: tuple[tuple[int, ...], ...]
    inputs: Mapping[int, Callable[[], Iterator[pa.RecordBatch]]] = field(default_factory=dict)
    from_driver: bool = False

    def senders(self, stage: int) -> frozenset[int]:
        """Who must have ended before a stage can begin."""
        return frozenset(self.homes[stage - 1])

    def tasks(self, stage: int, worker: int) -> Sequence[int]:
        """The tasks of a stage that a worker has."""
        return [task for task, home in enumerate(self.homes[stage]) if home == worker]


@dataclass(frozen=True)
class Done:
    """A worker's part of a job is done; its results went before."""

    job: int
    #: Seconds at work in each stage, CPU seconds in all, seconds spent waiting for others, bytes sent to others.
    busy: tuple[float, ...]
    cpu: float
    waited: float
    sent: int


@dataclass(frozen=True)
class Failed:
    """A worker could not do its part of a job."""

    job: int
    error: BaseException
    #: A peer that could not be reached: not this worker's fault.
    peer: int | None = None


@dataclass(frozen=True)
class Abort:
    """Forget a job; others may be going on beside it."""

    job: int


@dataclass(frozen=True)
class Leave:
    """End the worker."""


@dataclass(frozen=True)
class Keep:
    """Keep an object that later orders refer to by its key."""

    key: int
    value: Any


@dataclass(frozen=True)
class Drop:
    """Forget kept objects."""

    keys: tuple[int, ...]
