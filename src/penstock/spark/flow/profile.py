"""What the tasks of a micro-batch tell about themselves, gathered by pipeline, operator and region.

No extra Spark job is needed: the figures come home with the batch's own results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dataflow.plan import Plan
from penstock.dataflow.routing import moved
from penstock.spark.flow.definition import Definition


@dataclass(frozen=True)
class PipelineProfile:
    """One pipeline in one batch: CPU and wall seconds and tuples of each replica."""

    name: str
    region: str
    operators: tuple[str, ...]
    cpu: tuple[float, ...]
    seconds: tuple[float, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class OperatorProfile:
    """One operator in one batch, over all replicas."""

    rows_in: int = 0
    rows_out: int = 0
    cpu: float = 0.0
    waiting: int = 0


@dataclass(frozen=True)
class Reconfiguration:
    """A change that took effect with a batch: what moved, what it cost."""

    before: Plan
    after: Plan
    #: Seconds from the request to the batch that has it; seconds the batch was held up for it.
    waited: float
    pause: float
    #: Region -> key groups that moved.
    moved: Mapping[str, tuple[int, ...]]
    #: Tuples of this batch that belong to moved groups.
    delayed: int
    #: Bytes of state of the moved groups.
    bytes: float = 0.0


@dataclass(frozen=True)
class Profile:
    """One micro-batch."""

    batch: int
    started: float
    seconds: float
    rows: int
    results: int
    dead: int
    pipelines: Mapping[str, PipelineProfile]
    operators: Mapping[str, OperatorProfile]
    #: Region -> tuples by key group.
    groups: Mapping[str, NDArray[np.int64]]
    plan: Plan
    source_cpu: float = 0.0
    #: The longest task of the source stage.
    source_seconds: float = 0.0
    change: Reconfiguration | None = None
    extra: Mapping[str, float] = field(default_factory=dict)


def profile_of(
    definition: Definition,
    batch: int,
    started: float,
    seconds: float,
    before: Plan,
    plan: Plan,
    asked: float | None,
    drained: float,
    setup: float,
    bytes_moved: float,
    reports: list[dict[str, Any]],
) -> Profile:
    """Fold the tasks' reports."""
    change = None
    if plan != before:
        shifts = {
            name: tuple(moved(before.regions[name].routing, region.routing))
            for name, region in plan.regions.items()
        }
        delayed = sum(r.get("delayed", 0) for r in reports)
        waited = 0.0 if asked is None else max(0.0, started - asked)
        change = Reconfiguration(
            before, plan, waited, setup, {n: g for n, g in shifts.items() if g}, delayed, bytes_moved
        )
    return Profile(
        batch,
        started,
        seconds,
        rows=sum(sum(r.get("sources", {}).values()) for r in reports),
        results=sum(sum(r["sinks"].values()) for r in reports),
        dead=sum(sum(r["dead"].values()) for r in reports),
        pipelines=_pipelines(definition, plan, reports),
        operators=_operators(reports),
        groups=_groups(reports),
        plan=plan,
        source_cpu=sum(r["cpu"] for r in reports if r["stage"] == 0),
        source_seconds=max((r["seconds"] for r in reports if r["stage"] == 0), default=0.0),
        change=change,
        extra={"drained": drained, "setup": setup},
    )


def _pipelines(
    definition: Definition, plan: Plan, reports: list[dict[str, Any]]
) -> dict[str, PipelineProfile]:
    found = {}
    for pipeline in definition.wiring(plan).layout.pipelines:
        own = [r for r in reports if r.get("pipeline") == pipeline.name]
        by_replica = {r["replica"]: r for r in own}
        told = [by_replica.get(i, {"cpu": 0.0, "seconds": 0.0, "rows": 0}) for i in range(pipeline.replicas)]
        if pipeline.fused:
            told = [_fused(reports, pipeline.operators)]
        found[pipeline.name] = PipelineProfile(
            pipeline.name,
            pipeline.region,
            pipeline.operators,
            tuple(t["cpu"] for t in told),
            tuple(t["seconds"] for t in told),
            tuple(t["rows"] for t in told),
        )
    return found


def _fused(reports: list[dict[str, Any]], operators: tuple[str, ...]) -> dict[str, Any]:
    """A stateless pipeline has no task of its own: its operators' time in the tasks they ride with."""
    figures = [r["operators"][n] for r in reports for n in operators if n in r["operators"]]
    rows = sum(r["operators"][operators[0]]["rows_in"] for r in reports if operators[0] in r["operators"])
    cpu = sum(f["cpu"] for f in figures)
    return {"cpu": cpu, "seconds": cpu, "rows": rows}


def _operators(reports: list[dict[str, Any]]) -> dict[str, OperatorProfile]:
    found: dict[str, OperatorProfile] = {}
    for told in reports:
        for name, f in told["operators"].items():
            have = found.get(name, OperatorProfile())
            found[name] = OperatorProfile(
                have.rows_in + f["rows_in"],
                have.rows_out + f["rows_out"],
                have.cpu + f["cpu"],
                have.waiting + f["waiting"],
            )
    return found


def _groups(reports: list[dict[str, Any]]) -> dict[str, NDArray[np.int64]]:
    found: dict[str, NDArray[np.int64]] = {}
    for told in reports:
        for region, counts in told["groups"].items():
            have = found.get(region)
            found[region] = np.asarray(counts) if have is None else have + np.asarray(counts)
    return found
