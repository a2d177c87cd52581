"""Organic adaptation of pipelines and replicas (Joker 4, Algorithms 1-7), with scale-in as an option.

Profile for a while; find pipelines whose workers are busier than the bottleneck threshold; split them where the
split promises enough, otherwise add a replica to the region; look at the throughput in the next period; keep what
helped, undo and blacklist what did not. All bottlenecks of a period are resolved together, since two parallel
branches only gain when both do; only the regions nearest to the sources are evaluated, since what happens
downstream of them shows in their throughput.
"""

from dataclasses import dataclass, replace
from math import isnan

from penstock.core.decision import Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, RegionObservation
from penstock.policies.organic_state import (
    OrganicState,
    RegionState,
    allowed,
    changes_to,
    config_of,
    finalize,
    gain,
    joined,
    leftmost,
    revert,
    settled,
)
from penstock.policies.pipelines import best_split
from penstock.policies.profile import Config, RegionProfile, blend, profile, total_throughput


@dataclass(frozen=True, slots=True)
class Organic:
    """Joker's adaptation algorithm.

    bottleneck: CPU utilisation above which a pipeline is a bottleneck. split: least gain that a split must promise.
    increase: least gain in throughput that a change must bring. load_change: change of throughput or utilisation
    that makes the policy forget what did not help. After a change ``warmup`` observations are ignored, then ``samples``
    are averaged with weight ``past`` on the past (the paper profiles for 30 seconds: 4 + 26 observations of one second).
    The first profile is made anew, at most ``stable`` times, while the throughput rises within it by half of ``increase``.
    After ``stable`` periods without a change it rests until the load changes.

    order: "fusion-first" (split, then replicate; the paper's), "fission-first", "fusion" or "fission" alone.
    shrink (beyond the paper, where it only grows): when nothing is a bottleneck, take a replica away or merge two
    pipelines where the rest would stay clearly below the bottleneck threshold; undone if throughput falls by ``loss``.
    """

    bottleneck: float = 0.8
    split: float = 0.2
    increase: float = 0.1
    load_change: float = 0.2
    max_replicas: int = 16
    warmup: int = 4
    samples: int = 6
    past: float = 0.75
    stable: int = 3
    order: str = "fusion-first"
    shrink: bool = False
    loss: float = 0.05
    name: str = "Organic"

    def __post_init__(self) -> None:
        if self.order not in ("fusion-first", "fission-first", "fusion", "fission"):
            raise PenstockError(
                f"Organic does not know the order '{self.order}'; choose fusion-first, fission-first, fusion or fission."
            )
        if not 0 < self.bottleneck <= 1 or self.split < 0 or self.increase < 0 or self.load_change <= 0:
            raise PenstockError(
                "Organic needs bottleneck in (0, 1], split >= 0, increase >= 0 and load_change > 0."
            )
        if self.max_replicas < 1 or self.samples < 1 or self.warmup < 0 or not 0 <= self.past < 1:
            raise PenstockError(
                "Organic needs max_replicas >= 1, samples >= 1, warmup >= 0 and past in [0, 1)."
            )

    def start(self) -> OrganicState:
        """Nothing known."""
        return OrganicState()

    def step(self, state: OrganicState, observation: Observation) -> tuple[OrganicState, Decision]:
        """Profile; at the end of a profiling period, adapt."""
        present = profile(observation)
        if not present:
            return state, Decision.keep("no region that can be adapted")
        state = joined(state, observation)
        if not settled(state, observation):
            return self._wait(state, observation)
        state = replace(state, late=0)
        if state.warmup > 0:
            return replace(state, warmup=state.warmup - 1), Decision.keep("letting the last change settle")
        state = replace(
            state,
            profiles=blend(state.profiles, present, self.past),
            throughputs=(*state.throughputs, total_throughput(present)),
        )
        if len(state.throughputs) < self.samples:
            return state, Decision.keep(f"profiling, {len(state.throughputs)} of {self.samples} observations")
        fresh = replace(state, profiles=(), throughputs=())
        if self._warms_up(state):
            return replace(fresh, rising=state.rising + 1), Decision.keep(
                "the throughput still rises by itself; profiling anew"
            )
        return self._adapt(fresh, dict(state.profiles), observation)

    def _warms_up(self, state: OrganicState) -> bool:
        """Whether a first profile would be no baseline: what a run gains as it warms up is nothing that a change brings."""
        first = any(region.reference is None for _, region in state.regions)
        half = len(state.throughputs) // 2
        if not first or state.trial or not half or state.rising >= self.stable:
            return False
        earlier, later = sum(state.throughputs[:half]), sum(state.throughputs[-half:])
        return later > (1 + self.increase / 2) * earlier

    def _wait(self, state: OrganicState, observation: Observation) -> tuple[OrganicState, Decision]:
        """The plant is not what was asked for: still on its way, or refused by a guard or by the plant."""
        if state.late < self.warmup + self.samples:
            return replace(state, late=state.late + 1, throughputs=(), profiles=()), Decision.keep(
                "waiting for the last change"
            )
        regions = []
        for name, region in state.regions:
            seen = config_of(observation.region(name))
            refused = [(p, region.config) for p in region.adapting] if region.config != seen else []
            regions.append(
                (name, RegionState(seen, metrics=region.metrics, blacklist=(*region.blacklist, *refused)))
            )
        return OrganicState(tuple(regions), warmup=self.warmup), Decision.keep(
            "the last change was not made; going on from what is there"
        )

    # -- Algorithm 1

    def _adapt(
        self, state: OrganicState, profiles: dict[str, RegionProfile], observation: Observation
    ) -> tuple[OrganicState, Decision]:
        regions = {n: r for n, r in state.regions if n in profiles}
        grows = {r.name: _grows(r) for r in observation.regions}
        if state.trial:
            return self._evaluate(state, regions, profiles, grows, observation)
        woken, known = False, all(r.reference is not None for r in regions.values())
        for name, fresh in profiles.items():
            regions[name], changed = self._update(regions[name], fresh)
            woken = woken or changed
        if woken and known and not state.stirred:
            # Part of this period was under the old load: a trial would be credited with what the load did.
            return self._close(
                state, regions, (), observation, "the load changed; looking at it first", stirred=True
            )
        if state.quiet >= self.stable and not woken:
            return self._close(
                state, regions, (), observation, "stable: no more changes until the load changes"
            )
        trial, words = [], []
        for name in regions:
            resolved, why = self._resolve(regions[name], grows[name])
            if resolved is not None:
                regions[name] = resolved
                trial.append(name)
                words.append(f"{name}: {why}")
        if not trial and self.shrink:
            trial, words = self._release(regions)
        return self._close(
            state,
            regions,
            tuple(trial),
            observation,
            "; ".join(words) or "no bottleneck that a change could resolve",
            acted=state.stirred,
        )

    def _evaluate(
        self, state: OrganicState, regions: dict[str, RegionState], profiles: dict[str, RegionProfile],
        grows: dict[str, bool], observation: Observation,
    ) -> tuple[OrganicState, Decision]:  # fmt: skip
        trial = [n for n in state.trial if n in regions]
        failed = next(
            (n for n in leftmost(trial, observation) if not self._resolved(regions[n], profiles[n])), None
        )
        if failed is None:
            gains = ", ".join(f"{n} {gain(regions[n], profiles[n]):+.0%}" for n in trial)
            for name in trial:
                regions[name] = finalize(regions[name], profiles[name])
            return self._close(state, regions, (), observation, f"kept: throughput {gains}", acted=True)
        why = f"undone: throughput of {failed} {gain(regions[failed], profiles[failed]):+.0%}"
        shrunk = regions[failed].shrinking
        regions[failed] = revert(regions[failed])
        again, how = (None, "") if shrunk else self._resolve(regions[failed], grows[failed])
        if again is not None:
            regions[failed] = again
            return self._close(state, regions, tuple(trial), observation, f"{why}; instead {how}")
        for name in trial:
            if name != failed:
                regions[name] = revert(regions[name])
        return self._close(state, regions, (), observation, why, acted=True)

    def _resolved(self, region: RegionState, fresh: RegionProfile) -> bool:
        gained = gain(region, fresh)
        return gained > -self.loss if region.shrinking else gained >= self.increase

    def _close(
        self, state: OrganicState, regions: dict[str, RegionState], trial: tuple[str, ...], observation: Observation,
        reason: str, acted: bool = False, stirred: bool = False,
    ) -> tuple[OrganicState, Decision]:  # fmt: skip
        changes = [c for n, r in regions.items() for c in changes_to(observation.region(n), r.config)]
        quiet = 0 if changes or trial or acted or stirred else state.quiet + 1
        warmup = self.warmup if changes else 0
        after = OrganicState(tuple(regions.items()), trial, warmup=warmup, quiet=quiet, stirred=stirred)
        threads = sum(len(r.config[0]) * r.config[1] for r in regions.values())
        return after, Decision(tuple(changes), reason, {Metric.WORKERS: float(threads)})

    # -- Algorithms 2, 3 and 4

    def _resolve(self, region: RegionState, grows: bool) -> tuple[RegionState | None, str]:
        """A configuration that should relieve the bottleneck pipelines, or None."""
        metrics = region.metrics
        if metrics is None or len(metrics.utilisation) != len(region.config[0]):
            return None, ""
        hot = [i for i, u in enumerate(metrics.utilisation) if u > self.bottleneck]
        if not hot:
            return None, ""
        starts = tuple(region.config[0][i] for i in hot)
        ways = {"split": self._split(region, metrics, hot), "replicate": self._expand(region, grows, starts)}
        names = {"fusion": ["split"], "fission": ["replicate"], "fission-first": ["replicate", "split"]}
        for name in names.get(self.order, ["split", "replicate"]):
            config = ways[name]
            if config is not None:
                busy = max(metrics.utilisation[i] for i in hot)
                why = f"pipelines {config[0]}" if name == "split" else f"{config[1]} replicas"
                return replace(
                    region, base=region.config, config=config, adapting=starts
                ), f"{why}, since a pipeline is {busy:.0%} busy"
        return None, ""

    def _split(self, region: RegionState, metrics: RegionProfile, hot: list[int]) -> Config | None:
        starts = list(region.config[0])
        for i in hot:
            costs = metrics.costs[i]
            if any(isnan(c) for c in costs):
                return None
            at, utility = best_split(costs)
            if at == 0 or utility - 1.0 < self.split - 1e-9:
                return None
            starts.append(region.config[0][i] + at)
        return allowed(region, (tuple(sorted(starts)), region.config[1]), [region.config[0][i] for i in hot])

    def _expand(self, region: RegionState, grows: bool, starts: tuple[int, ...]) -> Config | None:
        if not grows or region.config[1] >= self.max_replicas:
            return None
        return allowed(region, (region.config[0], region.config[1] + 1), starts)

    # -- Algorithm 7

    def _update(self, region: RegionState, fresh: RegionProfile) -> tuple[RegionState, bool]:
        old = region.reference
        if old is None or len(old.utilisation) != len(fresh.utilisation):
            return replace(region, metrics=fresh, reference=fresh), True
        pairs = [(old.throughput, fresh.throughput), *zip(old.utilisation, fresh.utilisation, strict=True)]
        # Throughput and utilisation are capped, so a load that grew past the capacity may show as less than the
        # threshold; a pipeline that had room and has none now tells it.
        filled = region.roomy and any(b >= 0.98 for b in fresh.utilisation)
        if filled or any(abs(b - a) > self.load_change * max(abs(a), 1e-9) for a, b in pairs):
            return replace(region, metrics=fresh, reference=fresh, blacklist=(), roomy=False), True
        return replace(region, metrics=fresh, roomy=region.roomy or max(fresh.utilisation) < 0.95), False

    # -- beyond the paper

    def _release(self, regions: dict[str, RegionState]) -> tuple[list[str], list[str]]:
        """Give the resources back that the least loaded region can spare; one region at a time."""
        low = 0.9 * self.bottleneck
        options = []
        for name, region in regions.items():
            metrics = region.metrics
            if (
                metrics is None
                or len(metrics.utilisation) != len(region.config[0])
                or any(map(isnan, metrics.utilisation))
            ):
                continue
            pipes, replicas = region.config
            busiest = max(metrics.utilisation)
            if replicas > 1 and busiest * replicas / (replicas - 1) < low:
                options.append((busiest * replicas / (replicas - 1), name, (pipes, replicas - 1)))
            for i in range(len(pipes) - 1):
                together = metrics.utilisation[i] + metrics.utilisation[i + 1]
                if together < low:
                    options.append((together, name, (pipes[: i + 1] + pipes[i + 2 :], replicas)))
        for expected, name, config in sorted(options):
            region = regions[name]
            if allowed(region, config, region.config[0]) is not None:
                regions[name] = replace(
                    region, base=region.config, config=config, adapting=region.config[0], shrinking=True
                )
                return [name], [
                    f"{name}: fewer resources, since the busiest pipeline would be {expected:.0%} busy"
                ]
        return [], []


def _grows(region: RegionObservation) -> bool:
    """Whether a region can have replicas: a stateless one where the plant gives it some, which Joker's does not."""
    return region.kind == "partitioned" or (region.kind == "stateless" and region.replicas.limit > 1)
