"""Simulated runs of several policies, beside each other on the cores there are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric

if TYPE_CHECKING:
    from penstock.sim.closed_loop import ClosedLoopResult
    from penstock.sim.load import Load

#: Arrivals times policies below which starting processes costs more than it saves.
_FEW = 400_000

#: Policies whose decisions take long, the longest first.
_SLOW = ("mead", "autopilot", "mpc")


@dataclass(frozen=True, eq=False)
class SimulationJob:
    """One policy on one load."""

    plant: str
    parameters: dict[str, float]
    stream: "Load"
    seed: int
    policy: str
    target: float
    period: float
    metric: str
    warm_up: float
    late: float = 0.05  # share of the tuples that may miss the target

    def policy_object(self) -> Any:
        """The policy, made for the plant and what was asked for."""
        from penstock.policies.catalog import policy_named
        from penstock.sim.plant_catalog import simulated_plant

        plant = simulated_plant(self.plant)
        return policy_named(
            self.policy, plant.surroundings(self.parameters, self.target, self.period, self.late)
        )


def run_jobs(jobs: Sequence[SimulationJob], progress: bool = True) -> "list[ClosedLoopResult]":
    """The results in the order of the jobs; what is done is told on the error output while others run."""
    for job in jobs:
        _standing(job.policy_object(), job.parameters)  # a mistake is told before anything runs
    console = Console(stderr=True)
    shown = progress and console.is_terminal
    done: dict[int, ClosedLoopResult] = {}

    def take(places: Sequence[int], results: "Sequence[ClosedLoopResult]") -> None:
        done.update(zip(places, results, strict=True))
        if shown:
            names = ", ".join(jobs[i].policy for i in places)
            console.print(f"{len(done)} of {len(jobs)}: {names}", markup=False, style="dim")

    few = sum(len(j.stream.arrivals) for j in jobs) < _FEW
    if few or len(jobs) < 2 or (os.cpu_count() or 1) < 2:
        for place, job in enumerate(jobs):
            take([place], [execute(job)])
        return list(done.values())
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    groups = _groups(jobs)
    # The mistakes of a forked process with threads are worse than the second that a new one takes to start.
    with ProcessPoolExecutor(min(len(groups), os.cpu_count() or 1), get_context("spawn")) as pool:
        waiting = {pool.submit(_execute_all, [jobs[i] for i in group]): group for group in groups}
        for finished in as_completed(waiting):
            take(waiting[finished], finished.result())
    return [done[place] for place in range(len(jobs))]


def _groups(jobs: Sequence[SimulationJob]) -> list[list[int]]:
    """Variants of one policy go together, since they share what they fit; the slow ones start first."""
    groups: dict[str, list[int]] = {}
    for place, job in enumerate(jobs):
        groups.setdefault(job.policy.partition(":")[0].lower(), []).append(place)
    return [groups[n] for n in sorted(groups, key=lambda n: _SLOW.index(n) if n in _SLOW else len(_SLOW))]


def _execute_all(jobs: Sequence[SimulationJob]) -> "list[ClosedLoopResult]":
    return [execute(job) for job in jobs]


def execute(job: SimulationJob) -> "ClosedLoopResult":
    """Run one policy."""
    from penstock.sim.closed_loop import run_policy
    from penstock.sim.plant_catalog import simulated_plant

    policy = job.policy_object()
    parameters = job.parameters | _standing(policy, job.parameters)
    plant = simulated_plant(job.plant).make(job.stream, parameters, job.seed)
    return run_policy(
        plant,
        policy,
        job.period,
        job.stream.seconds,
        metric=next(m for m in Metric if m.value == job.metric),
        target=job.target,
        name=job.policy,
        warm_up=job.warm_up,
    )


def _standing(policy: Any, parameters: dict[str, float]) -> dict[str, float]:
    """A fixed setting starts where it stands, which must be somewhere that the plant can be."""
    from penstock.policies import Static

    if not isinstance(policy, Static):
        return {}
    given = {"executors": policy.executors} | {
        {"operator": "workers", "panes": "pane_workers", "windows": "window_workers"}.get(k, k): v
        for k, v in policy.workers.items()
    }
    wanted = {name: float(count) for name, count in given.items() if name in parameters and count is not None}
    most = parameters.get("limit", inf)
    for name, count in wanted.items():
        if not 1 <= count <= most:
            more = f", or --set limit={count:g}" if count > most else ""
            raise PenstockError(
                f"Static wants {count:g} {name.replace('_', ' ')} where 1 to {most:g} can be had; name a number in between{more}."
            )
    return wanted
