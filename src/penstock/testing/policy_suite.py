"""The contract suite that every policy must pass."""

import copy
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from math import nan
from typing import Any

import numpy as np

from penstock.core.capacity import Capacity
from penstock.core.decision import Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import (
    KeyLoad,
    Latency,
    Observation,
    OperatorObservation,
    RegionObservation,
    StageObservation,
)
from penstock.core.policy import Policy
from penstock.testing.equality import same


def check_policy(policy: Policy[Any], observations: Iterable[Observation] | None = None) -> None:
    """Raise AssertionError unless the policy keeps its contract.

    It must be a frozen configuration; its state must survive pickling; a step must change neither state nor
    observation and give the same answer twice; every decision must have a reason; observations in which figures
    are missing, zero or huge must get an answer; and a run that is interrupted after any step and continued
    from the pickled state must go on as if nothing had happened. A policy with a field ``where`` takes the name of a
    stage or of a region there and refuses any other with a PenstockError.
    """
    script = list(observations) if observations is not None else example_observations()
    assert is_dataclass(policy), f"{policy.name}: a policy is a frozen dataclass"
    assert policy.name, "a policy has a name for tables and journals"
    before = copy.deepcopy(policy)
    states, decisions = _run(policy, script)
    again = _run(policy, script)
    assert same(decisions, again[1]), f"{policy.name}: the same run twice gave two answers"
    assert same(before, policy), f"{policy.name}: a step changed the policy object"
    for middle in {0, len(script) // 2, len(script) - 1}:
        state = pickle.loads(pickle.dumps(states[middle]))
        _, rest = _run(policy, script[middle:], state)
        assert same(rest, decisions[middle:]), (
            f"{policy.name}: continued after step {middle}, it decided otherwise"
        )
    for name, odd in _odd_observations(script[0]).items():
        _, decision = policy.step(policy.start(), odd)
        assert isinstance(decision, Decision), f"{policy.name}: no decision for {name}"
    if any(f.name == "where" for f in fields(policy)):
        _check_place(policy, script)


def _check_place(policy: Any, script: Sequence[Observation]) -> None:
    """A region of one stage is that stage, and a name that nothing has is refused."""
    stages = script[0].stages
    regions = Counter(s.region for s in stages if s.region)
    for stage in (s for s in stages if regions[s.region] == 1):
        by_name, by_region = (replace(policy, where=where) for where in (stage.name, stage.region))
        assert same(_run(by_name, script)[1], _run(by_region, script)[1]), (
            f"{policy.name}: the region '{stage.region}' is not taken for its stage '{stage.name}'"
        )
    told, nowhere = "", replace(policy, where="no such place")
    try:
        nowhere.step(nowhere.start(), script[0])
    except PenstockError as error:
        told = str(error)
    assert "no such place" in told, f"{policy.name}: a place that does not exist is not refused by its name"


def _run(
    policy: Policy[Any], script: Sequence[Observation], state: Any = None
) -> tuple[list[Any], list[Decision]]:
    state = policy.start() if state is None else state
    states, decisions = [state], []
    for observation in script:
        kept, seen = copy.deepcopy(state), copy.deepcopy(observation)
        after, decision = policy.step(state, observation)
        assert same(kept, state), f"{policy.name}: a step changed the state it was given"
        assert same(seen, observation), f"{policy.name}: a step changed the observation it was given"
        assert decision.reason.strip(), f"{policy.name}: a decision without a reason"
        state = after
        states.append(state)
        decisions.append(decision)
    return states, decisions


def example_observations(steps: int = 24, seed: int = 1) -> list[Observation]:
    """Observations that have something for every policy: two stages, three regions, keys, shares, frequencies."""
    rng = np.random.default_rng(seed)
    return [_example(step, rng) for step in range(steps)]


def _example(step: int, rng: np.random.Generator) -> Observation:
    rate = 1000.0 * (1 + 0.8 * np.sin(step / 4)) * float(rng.uniform(0.9, 1.1))
    keys = tuple(float(p) for p in rng.dirichlet(np.ones(16)))
    stages = (
        _stage("panes", rate, 2, 0.0015, rng, keys, ("windows",)),
        _stage("windows", rate / 5, 1, 0.003, rng, keys, ()),
        replace(
            _stage("chain/0", rate, 1, 0.0008, rng, keys, ("sink/0",)), region="chain", operators=_operators()
        ),
        replace(
            _stage("sink/0", rate / 2, 1, 0.0001, rng, keys, ()), region="sink", operators=_operators()[:1]
        ),
    )
    chain = RegionObservation(
        "chain", Capacity.steady(1), ("a", "b", "c"), (0,), "partitioned", rate, ("sink",)
    )
    sink = RegionObservation("sink", Capacity.steady(1), ("a",), (0,), "stateful", rate / 2)
    mean = 0.01 * float(rng.uniform(1, 5))
    return Observation(
        time=float(step + 1),
        period=1.0,
        stages=stages,
        regions=(chain, sink),
        executors=Capacity.steady(2, limit=8),
        latency=Latency(mean, mean, 3 * mean, 5 * mean, 9 * mean),
        power=30.0,
    )


def _operators() -> tuple[OperatorObservation, ...]:
    return tuple(
        OperatorObservation(n, cost, cost * 1e-3) for n, cost in (("a", 0.3), ("b", 0.2), ("c", 0.3))
    )


def _stage(
    name: str, rate: float, workers: int, service: float, rng: np.random.Generator, keys: tuple[float, ...],
    downstream: tuple[str, ...],
) -> StageObservation:  # fmt: skip
    rho = rate * service / workers
    return StageObservation(
        name=name,
        workers=Capacity.steady(workers),
        downstream=downstream,
        arrival_rate=rate,
        arrival_scv=float(rng.uniform(0.5, 4)),
        arrival_dispersion=20.0,
        interarrivals=rng.exponential(1 / rate, 400),
        busy_time=min(rho, 1.0) * workers,
        tuples_in=rate,
        tuples_out=min(rate, workers / service),
        backlog=max(0.0, rate - workers / service),
        latency=Latency(service * 2, service, service * 5, service * 8, service * 12),
        waiting_time=service,
        service_time=service,
        service_scv=0.5,
        utilisation=rho,
        worker_utilisation=(min(rho, 1.0),) * workers,
        splitting=float(rng.uniform(1, 6)),
        keys=KeyLoad(keys, (), tuple(i % workers for i in range(len(keys)))),
        cpu_share=Capacity.steady(1.0),
        frequency=Capacity.steady(2.0),
    )


def _odd_observations(normal: Observation) -> dict[str, Observation]:
    """Observations that a policy must survive."""
    bare = tuple(StageObservation(s.name, s.workers, region=s.region) for s in normal.stages)
    idle = tuple(
        replace(
            s,
            arrival_rate=0.0,
            tuples_in=0.0,
            tuples_out=0.0,
            busy_time=0.0,
            utilisation=0.0,
            interarrivals=None,
        )
        for s in normal.stages
    )
    flooded = tuple(replace(s, arrival_rate=1e9, utilisation=1e6, backlog=1e9) for s in normal.stages)
    arriving = tuple(replace(s, workers=Capacity(4, 4, 1)) for s in normal.stages)
    gone = tuple(replace(s, workers=Capacity(1, 1, 0), utilisation=nan) for s in normal.stages)
    return {
        "unknown figures": replace(normal, stages=bare, latency=Latency()),
        "no load": replace(normal, stages=idle),
        "an enormous load": replace(normal, stages=flooded),
        "capacity on its way": replace(normal, stages=arriving),
        "no worker at all": replace(normal, stages=gone),
        "a period of zero": replace(normal, period=0.0),
        "no stages": Observation(1.0, 1.0, ()),
    }
