"""Profiles of regions and their pipelines, averaged over several observations (Joker 4.1)."""

from dataclasses import dataclass
from math import isnan, nan

from penstock.core.observation import Observation, StageObservation

#: Operators at which the pipelines of a region begin, and its number of replicas.
Config = tuple[tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class RegionProfile:
    """Throughput of a region; CPU utilisation and operator costs of each of its pipelines."""

    throughput: float
    utilisation: tuple[float, ...]
    costs: tuple[tuple[float, ...], ...]


Profiles = tuple[tuple[str, RegionProfile], ...]


def profile(observation: Observation) -> Profiles:
    """What one observation tells of its regions; sources are left out."""
    found = []
    for region in observation.regions:
        pipes = observation.pipelines(region.name)
        if region.kind == "source" or not pipes:
            continue
        costs = tuple(tuple(o.cost for o in p.operators) for p in pipes)
        throughput = (
            pipes[0].tuples_in / observation.period if isnan(region.throughput) else region.throughput
        )
        found.append((region.name, RegionProfile(throughput, tuple(_cpu(p) for p in pipes), costs)))
    return tuple(found)


def total_throughput(profiles: Profiles) -> float:
    """Tuples a second of all regions together, as far as they are known."""
    return sum(p.throughput for _, p in profiles if not isnan(p.throughput))


def _cpu(pipe: StageObservation) -> float:
    """Share of the period that the pipeline's workers were busy, on average."""
    if pipe.worker_utilisation:
        return sum(pipe.worker_utilisation) / len(pipe.worker_utilisation)
    return nan if isnan(pipe.utilisation) else min(1.0, pipe.utilisation)


def blend(old: Profiles, new: Profiles, past: float) -> Profiles:
    """Exponential average; where the pipelines changed meanwhile, only the new counts."""
    before = dict(old)
    return tuple((name, _blend(before.get(name), fresh, past)) for name, fresh in new)


def _blend(old: RegionProfile | None, new: RegionProfile, past: float) -> RegionProfile:
    if old is None or [len(c) for c in old.costs] != [len(c) for c in new.costs]:
        return new
    return RegionProfile(
        _mix(old.throughput, new.throughput, past),
        tuple(_mix(a, b, past) for a, b in zip(old.utilisation, new.utilisation, strict=True)),
        tuple(
            tuple(_mix(a, b, past) for a, b in zip(x, y, strict=True))
            for x, y in zip(old.costs, new.costs, strict=True)
        ),
    )


def _mix(old: float, new: float, past: float) -> float:
    if isnan(old) or isnan(new):
        return old if isnan(new) else new
    return past * old + (1 - past) * new
