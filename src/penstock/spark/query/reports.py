"""What the tasks of a query's stages tell the driver, and stages that do numbered pieces of work."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from penstock.core.belief import Sighting, Sightings
from penstock.disorder.stats import BatchStats
from penstock.spark.runtime.engine import BatchRows, Engine, Stage
from penstock.spark.runtime.orders import ArrowFunction
from penstock.spark.runtime.report import Report

R = TypeVar("R", bound=Report)

_SCHEMA = StructType().add("report", StringType())


@dataclass(frozen=True)
class TallyReport(Report):
    """What one input partition saw: rows, late and dead ones, their times, the files of those set aside.

    ``usable`` rows have all they need; some of them may not be believed, because of the times in ``sightings``.
    """

    rows: int
    late: int
    bad: int
    stats: BatchStats
    usable: int
    sightings: Sightings
    late_file: str | None
    dead_file: str | None
    seconds: float
    #: Rows dropped on purpose.
    shed: int = 0

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields made from plain values."""
        seen = tuple(Sighting(**s) for s in values["sightings"])
        return {**values, "stats": BatchStats.from_json(values["stats"]), "sightings": seen}


@dataclass(frozen=True)
class FoldedPart:
    """One pane of a pane worker: its segment in the worker's file, the rows it keeps and has received."""

    pane: int
    segment: int
    rows: int
    received: int


@dataclass(frozen=True)
class FoldReport(Report):
    """What one pane worker made of its rows."""

    worker: int
    file: str
    parts: tuple[FoldedPart, ...]
    busy: float
    cpu: float
    write: float

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields made from plain values."""
        return {**values, "parts": tuple(FoldedPart(**part) for part in values["parts"])}

    @property
    def received(self) -> int:
        """Rows the worker was given."""
        return sum(part.received for part in self.parts)


@dataclass(frozen=True)
class CloseReport(Report):
    """A part that was kept as rows, sorted and selected at last."""

    index: int
    file: str
    rows: int
    busy: float


@dataclass(frozen=True)
class WindowReport(Report):
    """What one task of the window stage did; which files it wrote depends on the stage."""

    worker: int
    busy: float
    #: Window -> rows of its answer.
    sizes: Mapping[int, int] = field(default_factory=dict)
    output_file: str | None = None
    #: Row ids of windows of which the task had only a part.
    members_file: str | None = None
    #: What the stage keeps for the next batch.
    live_file: str | None = None
    live_rows: int = 0
    #: A MERGE task: the window it worked for, and the ids of its result.
    merged_window: int | None = None
    merged_file: str | None = None
    candidates: int = 0
    cpu: float = 0.0
    write: float = 0.0

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields made from plain values."""
        return {**values, "sizes": {int(window): rows for window, rows in values["sizes"].items()}}


def report_batch(report: Report) -> pa.RecordBatch:
    """A report as a row for Spark."""
    return pa.RecordBatch.from_arrays([pa.array([report.to_json()])], names=["report"])


class NumberedStage(ABC):
    """A stage that does the pieces of work whose numbers come in, and reports each."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the pieces, one after another."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield report_batch(self.piece(number))

    @abstractmethod
    def piece(self, number: int) -> Report:
        """Do one piece and report it."""


def run_stage(engine: Engine, stage: ArrowFunction, kind: type[R], pieces: int, most: int = 0) -> list[R]:
    """Run a stage over the numbers 0 .. pieces - 1, a number a task (or dealt to at most ``most``); gather the reports."""
    batches = engine.run(BatchRows(numbers=pieces, most=most), [Stage(stage, _SCHEMA)])
    return [kind.from_json(text) for batch in batches for text in batch.column("report").to_pylist()]
