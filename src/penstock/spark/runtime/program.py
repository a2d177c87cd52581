"""What the micro-batch runtime runs: a program, which turns its committed state and a batch into new state and output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Protocol

from pyspark.sql import SparkSession

from penstock.spark.runtime.engine import BatchRows, Effort, Engine
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.manifest import Publication


@dataclass(frozen=True)
class Batch:
    """What a program knows about the micro-batch at hand."""

    id: int
    rows: BatchRows
    engine: Engine
    spark: SparkSession
    state: Mapping[str, Any]
    state_folder: str
    #: Prefix of the names of all files this attempt writes.
    prefix: str
    started: float

    @property
    def left(self) -> float:
        """Rows that the source has by now beyond those of the batch; nan where nobody can tell."""
        return nan if self.rows.left is None else self.rows.left()


@dataclass(frozen=True)
class BatchResult:
    """What a batch came to: the state after it, the files that hold it, what becomes visible, what was seen."""

    state: Mapping[str, Any]
    files: Sequence[str] = ()
    outputs: Sequence[Publication] = ()
    progress: Mapping[str, Any] = field(default_factory=dict)
    #: The same as a typed value, where the program has one.
    figures: object = None


def backlog(left: float, rate: float, seconds: float, trigger: float | None) -> float:
    """Rows that wait beyond those of one trigger, at the end of a batch of so many seconds.

    ``left`` is what the source tells; where it tells nothing, all rows of the batch's time have come since.

    >>> backlog(nan, rate=100.0, seconds=0.5, trigger=1.0), backlog(nan, rate=100.0, seconds=3.0, trigger=1.0)
    (0.0, 200.0)
    >>> backlog(5000.0, rate=100.0, seconds=0.5, trigger=1.0), backlog(5000.0, rate=100.0, seconds=0.5, trigger=None)
    (4900.0, 5000.0)
    """
    if trigger is None:
        return left
    waiting = rate * seconds if isnan(left) else left
    return max(0.0, waiting - rate * trigger)


class Outputs(Protocol):
    """Where the rows of a program go."""

    @property
    def by_role(self) -> Mapping[str, OutputFolder]:
        """The output folders by what they are to the run."""


class Program(Protocol):
    """A query or a flow, as the runtime sees it."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What makes state of this program unusable for another; compared at each start."""

    @property
    def outputs(self) -> Outputs:
        """Where its rows go."""

    @property
    def workers_wanted(self) -> int:
        """How many workers the next batch can use."""

    def first_state(self) -> Mapping[str, Any]:
        """The state before the first batch."""

    def run_batch(self, batch: Batch) -> BatchResult:
        """Process one micro-batch; must depend on nothing but the state and the rows."""

    def settled(self, batch: Batch) -> BatchResult | None:
        """Do what the last committed batch left for the next one; None where nothing was."""

    def committed(
        self, batch: Batch, outcome: BatchResult, seconds: float, effort: Effort | None
    ) -> Mapping[str, Any]:
        """Told after the commit, with the time the whole batch took and what it cost resident workers, where it has them.

        Gives progress that is known only now.
        """

    def close(self) -> None:
        """The run has ended."""
