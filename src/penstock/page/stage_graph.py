"""The latest observation as a graph: what flows where, how busy each place is, how evenly its keys are spread."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from penstock.core.observation import KeyLoad, Observation, StageObservation


def graph(observation: Observation) -> list[dict[str, Any]]:
    """The stages as nodes, each with the names of those after it; unknown figures are left out."""
    kinds = {region.name: region.kind for region in observation.regions}
    return [_node(stage, kinds.get(stage.region, "")) for stage in observation.stages]


def _node(stage: StageObservation, kind: str) -> dict[str, Any]:
    figures = {
        "rate": stage.arrival_rate,
        "load": stage.utilisation,
        "busiest": max(stage.worker_utilisation, default=float("nan")),
        "backlog": stage.backlog,
        "selectivity": stage.selectivity,
        "skew": float("nan") if stage.keys is None else skew(stage.keys),
        "share": float("nan") if stage.cpu_share is None else stage.cpu_share.observed,
    }
    known = {name: float(f"{value:.4g}") for name, value in figures.items() if isfinite(value)}
    return {
        "name": stage.name,
        "kind": kind,
        "operators": [o.name for o in stage.operators],
        "downstream": list(stage.downstream),
        "planned": stage.workers.planned,
        "observed": stage.workers.observed,
        **known,
    }


def skew(keys: KeyLoad) -> float:
    """Load of the fullest worker over the mean, by the keys that came; 1 is even.

    Without a routing it is the share of the hottest key group over the mean one.

    >>> skew(KeyLoad((0.5, 0.25, 0.25), routing=(0, 1, 1))), skew(KeyLoad((0.75, 0.25), routing=(0, 1)))
    (1.0, 1.5)
    """
    loads = keys.frequencies if not keys.routing else _by_worker(keys.frequencies, keys.routing)
    total = sum(loads)
    return max(loads) * len(loads) / total if loads and total > 0 else float("nan")


def _by_worker(frequencies: Sequence[float], routing: Sequence[int]) -> list[float]:
    loads = [0.0] * (max(routing) + 1)
    for worker, share in zip(routing, frequencies, strict=True):
        loads[worker] += share
    return loads
