"""What organic adaptation remembers of regions, and what happens to one that was tried (Joker, Algorithms 5 and 6)."""

from dataclasses import dataclass, replace

from penstock.core.capacity import Knob
from penstock.core.decision import Change
from penstock.core.observation import Observation, RegionObservation
from penstock.policies.profile import Config, Profiles, RegionProfile


@dataclass(frozen=True, slots=True)
class RegionState:
    """One region: its configuration, the one to go back to, the adapting pipelines, base metrics, blacklists.

    Pipelines are named by their first operator. ``shrinking`` marks a trial of fewer resources.
    """

    config: Config
    base: Config | None = None
    adapting: tuple[int, ...] = ()
    metrics: RegionProfile | None = None  # of the last period without a trial
    reference: RegionProfile | None = (
        None  # when the load was last seen to change; a slow drift adds up against it
    )
    blacklist: tuple[tuple[int, Config], ...] = ()
    shrinking: bool = False
    roomy: bool = False  # no pipeline was full at some time since the load was last seen to change


@dataclass(frozen=True, slots=True)
class OrganicState:
    """All regions, those under trial in topological order, the running profile, periods without a change.

    ``stirred``: the load was seen to change in the last period, which was therefore only looked at. ``throughputs``: of the
    observations of this period. ``rising``: first profiles that were left because the throughput rose within them.
    """

    regions: tuple[tuple[str, RegionState], ...] = ()
    trial: tuple[str, ...] = ()
    profiles: Profiles = ()
    warmup: int = 0
    throughputs: tuple[float, ...] = ()
    rising: int = 0
    quiet: int = 0
    late: int = 0
    stirred: bool = False


def finalize(region: RegionState, fresh: RegionProfile) -> RegionState:
    """What was tried stays; its pipelines start afresh."""
    kept = tuple(b for b in region.blacklist if b[0] not in region.adapting)
    return RegionState(region.config, metrics=fresh, reference=fresh, blacklist=kept)


def revert(region: RegionState) -> RegionState:
    """Back to what was there, and never that again (under this load)."""
    bad = tuple((p, region.config) for p in region.adapting)
    base = region.base or region.config
    return RegionState(
        base,
        metrics=region.metrics,
        reference=region.reference,
        blacklist=(*region.blacklist, *bad),
        roomy=region.roomy,
    )


def allowed(region: RegionState, config: Config, pipelines: list[int] | tuple[int, ...]) -> Config | None:
    """The configuration, unless it is blacklisted for one of the pipelines."""
    return None if any((p, config) in region.blacklist for p in pipelines) else config


def gain(region: RegionState, fresh: RegionProfile) -> float:
    """Throughput against the last period without a trial, as a share."""
    before = region.metrics.throughput if region.metrics is not None else float("nan")
    return fresh.throughput / before - 1.0 if before > 0 else (1.0 if fresh.throughput > 0 else 0.0)


def leftmost(trial: list[str], observation: Observation) -> list[str]:
    """Regions under trial that no other region under trial feeds."""
    below: set[str] = set()
    edges = {r.name: r.downstream for r in observation.regions}
    frontier = [d for n in trial for d in edges.get(n, ())]
    while frontier:
        name = frontier.pop()
        if name not in below:
            below.add(name)
            frontier.extend(edges.get(name, ()))
    return [n for n in trial if n not in below] or trial


def config_of(region: RegionObservation) -> Config:
    """What is planned for a region."""
    return region.pipelines, int(region.replicas.planned)


def joined(state: OrganicState, observation: Observation) -> OrganicState:
    """The state with regions that are new and without those that are gone."""
    known = dict(state.regions)
    here = {r.name: r for r in observation.regions if observation.pipelines(r.name)}
    names = [n for n, r in here.items() if r.kind != "source"]
    if list(known) == names:
        return state
    regions = tuple((n, known.get(n) or RegionState(config_of(here[n]))) for n in names)
    return replace(state, regions=regions, trial=tuple(n for n in state.trial if n in names))


def settled(state: OrganicState, observation: Observation) -> bool:
    """Whether the plant has what was asked for."""
    for name, region in state.regions:
        seen = observation.region(name)
        if config_of(seen) != region.config or seen.replicas.observed != seen.replicas.planned:
            return False
        if len(observation.pipelines(name)) != len(region.config[0]):
            return False
    return True


def changes_to(seen: RegionObservation, config: Config) -> list[Change]:
    """What must change to bring a region there."""
    changes = []
    if seen.pipelines != config[0]:
        changes.append(Change(Knob.PIPELINES, seen.name, config[0]))
    if int(seen.replicas.planned) != config[1]:
        changes.append(Change(Knob.WORKERS, seen.name, config[1]))
    return changes
