"""What a flow remembers between two micro-batches: plain values, committed with each batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.dataflow.evolution import Shape
from penstock.dataflow.plan import Plan
from penstock.spark.flow.state_store import OperatorState


@dataclass(frozen=True)
class DeferredSegment:
    """Messages of a batch that wait for a later segment, and the plan under which they were made."""

    batch: int
    segment: int
    files: tuple[str, ...]
    plan: Plan

    @property
    def due(self) -> int:
        """The step at which the segment is to run."""
        return self.batch + self.segment


@dataclass(frozen=True)
class FlowTotals:
    """Counts since the first batch."""

    rows: int = 0
    results: int = 0
    dead: int = 0
    batches: int = 0


@dataclass(frozen=True)
class FlowState:
    """The committed state of a flow."""

    plan: Plan
    operators: Mapping[str, OperatorState] = field(default_factory=dict)
    deferred: tuple[DeferredSegment, ...] = ()
    totals: FlowTotals = field(default_factory=FlowTotals)
    #: Files with rows for sinks that are functions on the driver: (batch, sink, file).
    handed: tuple[tuple[int, str, str], ...] = ()
    #: Operator -> its region, for those who look in from outside.
    regions: Mapping[str, str] = field(default_factory=dict)
    #: Operator -> what its layers go by; None where version 0.1 wrote the state.
    shapes: Mapping[str, Shape] | None = None
    #: The sources in the order in which Spark's log has their offsets; None where version 0.1 wrote the state.
    sources: tuple[str, ...] | None = None
    #: What messages that wait go by; None where 0.2.0 or a version before it wrote the state.
    channels: str | None = None

    @property
    def files(self) -> list[str]:
        """All state files of this version."""
        layers = {layer.file for state in self.operators.values() for layer in state.layers}
        return sorted(
            layers
            | {file for deferred in self.deferred for file in deferred.files}
            | {h[2] for h in self.handed}
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "plan": self.plan.to_json(),
            "operators": {name: state.to_json() for name, state in self.operators.items()},
            "deferred": [[o.batch, o.segment, list(o.files), o.plan.to_json()] for o in self.deferred],
            "totals": vars(self.totals),
            "handed": [list(h) for h in self.handed],
            "regions": dict(self.regions),
            "shapes": None if self.shapes is None else {n: s.to_json() for n, s in self.shapes.items()},
            "sources": None if self.sources is None else list(self.sources),
            "channels": self.channels,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "FlowState":
        """The value that ``to_json`` gave."""
        shapes, sources = value.get("shapes"), value.get("sources")
        return cls(
            Plan.from_json(value["plan"]),
            {name: OperatorState.from_json(state) for name, state in value["operators"].items()},
            tuple(
                DeferredSegment(b, s, tuple(f), Plan.from_json(p))
                for b, s, f, p in value.get("deferred", value.get("owed", ()))
            ),
            FlowTotals(**value["totals"]),
            tuple((b, s, f) for b, s, f in value["handed"]),
            value["regions"],
            None if shapes is None else {name: Shape.from_json(s) for name, s in shapes.items()},
            None if sources is None else tuple(sources),
            value.get("channels"),
        )

    def counted(self, rows: int, results: int, dead: int) -> "FlowState":
        """The state with one batch more in its totals."""
        t = self.totals
        return replace(
            self, totals=FlowTotals(t.rows + rows, t.results + results, t.dead + dead, t.batches + 1)
        )
