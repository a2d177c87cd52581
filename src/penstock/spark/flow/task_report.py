"""What a task of a flow tells the driver when it is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.belief import Sighting
from penstock.dataflow.invoke import OperatorFigures
from penstock.dataflow.slices import SliceTime
from penstock.spark.runtime.report import Report


@dataclass(frozen=True)
class WrittenLayer:
    """A state file that a task wrote for one operator, in the place of what other files held of its groups."""

    operator: str
    file: str
    rows: int
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrittenFile:
    """A file of rows that waits as ``staged`` in an output folder (by its role; none for a sink that is a function)."""

    folder: str
    staged: str
    final: str
    sink: str = ""


@dataclass(frozen=True)
class TaskOutputs:
    """The rows that left the flow in one task: counts by sink, files, dead letters by operator."""

    sinks: Mapping[str, int] = field(default_factory=dict)
    files: tuple[WrittenFile, ...] = ()
    dead: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskInput:
    """What a task worked on: rows of the sources (stage 0), or the messages of one replica of a pipeline."""

    stage: int
    rows: int
    #: Source -> rows of it.
    sources: Mapping[str, int] = field(default_factory=dict)
    pipeline: str = ""
    replica: int = 0
    #: Key groups that this replica did not have in the batch before, and the tuples that belong to them.
    moved: tuple[int, ...] = ()
    delayed: int = 0


@dataclass(frozen=True)
class TaskReport(Report):
    """One task at its end."""

    input: TaskInput
    segment: int
    outputs: TaskOutputs
    operators: Mapping[str, OperatorFigures]
    #: Region -> tuples by key group.
    groups: Mapping[str, Sequence[int]]
    written: tuple[WrittenLayer, ...]
    #: The file of messages for later segments, and which these are.
    inbox: str | None
    later: tuple[int, ...]
    cpu: float
    seconds: float

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields made from plain values."""
        outputs = values["outputs"]
        files = tuple(WrittenFile(**file) for file in outputs["files"])
        return {
            **values,
            "input": TaskInput(**{**values["input"], "moved": tuple(values["input"]["moved"])}),
            "outputs": TaskOutputs(outputs["sinks"], files, outputs["dead"]),
            "operators": {name: _figures(f) for name, f in values["operators"].items()},
            "written": tuple(
                WrittenLayer(**{**layer, "replaced": tuple(layer["replaced"])}) for layer in values["written"]
            ),
            "later": tuple(values["later"]),
        }

    @property
    def source_rows(self) -> int:
        """Rows that came in with this task."""
        return sum(self.input.sources.values())

    @property
    def results(self) -> int:
        """Rows for the sinks."""
        return sum(self.outputs.sinks.values())

    @property
    def dead(self) -> int:
        """Tuples that could not be processed."""
        return sum(self.outputs.dead.values())


def _figures(values: Mapping[str, Any]) -> OperatorFigures:
    told = tuple(tuple(Sighting(**s) for s in some) for some in values["told"])
    slices = tuple(SliceTime(tuple(s["groups"]), tuple(s["rows"]), s["seconds"]) for s in values["slices"])
    return OperatorFigures(**{**values, "told": told, "slices": slices})
