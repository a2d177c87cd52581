"""Policies by name, with arguments that fit the plant they are made for.

``attach``, the ``start`` of queries and flows, ``penstock simulate`` and the applications all read this table. A name is
that of the policy's class; case, hyphens and underscores do not matter (``RuleBased``, ``rule-based``, ``rulebased``).
Arguments may follow: ``Threshold:high=0.8,limits=1:4``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError, unknown
from penstock.core.policy import AnyPolicy
from penstock.forecast.holt import Holt
from penstock.policies.arguments import parse
from penstock.policies.autopilot import Autopilot
from penstock.policies.dhalion import Dhalion
from penstock.policies.ds2 import Ds2
from penstock.policies.dynamic_allocation import DynamicAllocation
from penstock.policies.fuzzy import Fuzzy
from penstock.policies.hpa import Hpa
from penstock.policies.mead import Mead
from penstock.policies.mpc import Mpc
from penstock.policies.organic import Organic
from penstock.policies.pipelined_fission import PipelinedFission
from penstock.policies.rule_based import RuleBased
from penstock.policies.spl import Spl
from penstock.policies.static import Static
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.policies.threshold import CPU_LEVELS, Threshold

Arguments = dict[str, Any]


def policy_named(policy: AnyPolicy | str, surroundings: Surroundings) -> AnyPolicy:
    """A policy object as it is, or one by name (``Name`` or ``Name:argument=value,...``) that fits the surroundings.

    ``Autopilot`` is refused where there are no executors to turn.

    >>> policy_named("threshold:high=0.85", Surroundings(PlantKind.MICRO_BATCHES, workers=(2, 8))).limits
    (2, 8)
    """
    if not isinstance(policy, str):
        _refuse_unfit(policy, surroundings)
        return policy
    name, _, words = policy.partition(":")
    entry = CATALOG[canonical(name)]
    known = {f.name for f in fields(entry.policy)}
    arguments = {k: v for k, v in entry.arguments(surroundings).items() if k in known}
    arguments |= parse(entry.policy, words)
    if words:
        arguments.setdefault("name", policy)
    made: AnyPolicy = entry.policy(**arguments)
    _refuse_unfit(made, surroundings)
    return made


def _refuse_unfit(policy: AnyPolicy, s: Surroundings) -> None:
    """Refuse a policy that would take part in everything and change nothing."""
    if isinstance(policy, Autopilot) and (s.kind is not PlantKind.MICRO_BATCHES or s.workers is None):
        raise PenstockError(
            "Autopilot turns executors and there are none to turn here; use it in attach() with executors=(least, most) or in "
            "penstock simulate --plant spark, and Ds2, Hpa or Dhalion where workers are scaled."
        )


def canonical(name: str) -> str:
    """The name as the catalog writes it.

    >>> canonical("rule-based"), canonical("mpc")
    ('RuleBased', 'Mpc')
    """
    names = {_folded(n): n for n in CATALOG}
    if _folded(name) not in names:
        raise unknown("policy", name, CATALOG)
    return names[_folded(name)]


def fitting(kind: PlantKind) -> tuple[str, ...]:
    """The policies that are made for such a plant; the others run there, but have nothing to turn.

    >>> fitting(PlantKind.REPLICAS)
    ('Static', 'Ds2', 'Hpa', 'Dhalion', 'Organic', 'PipelinedFission')
    """
    return tuple(name for name, entry in CATALOG.items() if kind in entry.kinds)


def shares_cpu(name: str) -> bool:
    """Whether a flow gives its operators CPU shares for this policy, rather than replicas.

    >>> shares_cpu("mead"), shares_cpu("organic")
    (True, False)
    """
    kinds = CATALOG[canonical(name.partition(":")[0])].kinds
    return PlantKind.SHARES in kinds and PlantKind.REPLICAS not in kinds


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A policy, the kinds of plants it is made for, and its arguments there."""

    policy: Any  # the class of the policy, a dataclass
    kinds: tuple[PlantKind, ...]
    arguments: Callable[[Surroundings], Arguments]


def _static(s: Surroundings) -> Arguments:
    """Everything that is allowed, always: the peak that others are compared with."""
    return {"workers": {}} if s.kind in (PlantKind.NETWORK, PlantKind.SHARES) else _fixed(s, s.bounds[1])


def _minimum(s: Surroundings) -> Arguments:
    """As little as is allowed, always."""
    return _fixed(s, s.bounds[0]) | {"name": "Minimum"}


def _maximum(s: Surroundings) -> Arguments:
    return _fixed(s, s.bounds[1]) | {"name": "Maximum"}


def _fixed(s: Surroundings, count: int) -> Arguments:
    """So many executors; or workers, the stages of a preference query sharing them evenly."""
    if s.kind is PlantKind.MICRO_BATCHES:
        return {"executors": count}
    apart = s.kind is PlantKind.PREFERENCE and s.stages and not s.in_turn
    each = max(1, count // len(s.stages)) if apart else count
    return {"workers": dict.fromkeys(s.stages, each)}


def _threshold(s: Surroundings) -> Arguments:
    """One level when the load leaves 50 % to 80 % of what executors can serve; CPU shares likewise."""
    if s.kind in (PlantKind.NETWORK, PlantKind.SHARES) or s.workers is None:
        levels = s.shares if len(s.shares) > 1 else CPU_LEVELS
        return {"high": 0.7, "low": 0.5, "knob": Knob.CPU_SHARE, "levels": levels}
    if s.kind is PlantKind.MICRO_BATCHES:
        return {"high": 0.8, "low": 0.5} | _scaling(s)
    return _scaling(s)


def _rule_based(s: Surroundings) -> Arguments:
    """One more executor above 90 %, one less below 50 %; elsewhere the paper's rules."""
    return _scaling(s) | ({"high": 0.9, "low": 0.5} if s.kind is PlantKind.MICRO_BATCHES else {})


def _spl(s: Surroundings) -> Arguments:
    return _scaling(s) | {"interval": max(4.0, 2 * s.period)}


def _ds2(s: Surroundings) -> Arguments:
    """Means over three periods, a backlog worked off in a minute; a change costs no more than a period."""
    several = max(15.0, 3 * s.period)
    return _scaling(s) | {"window": several, "settle": several, "restart": s.period}


def _dhalion(s: Surroundings) -> Arguments:
    return _scaling(s) | {"settle": max(15.0, 3 * s.period)}


def _scaling(s: Surroundings) -> Arguments:
    knob = Knob.EXECUTORS if s.kind is PlantKind.MICRO_BATCHES else Knob.WORKERS
    return {"knob": knob, "limits": s.bounds}


def _fuzzy(s: Surroundings) -> Arguments:
    return {"limit": max(2, s.together) if s.workers else None}


def _mpc(s: Surroundings) -> Arguments:
    """The paper's control; on micro-batches with their model, head-room for the forecast's errors, and what waits."""
    if s.kind is PlantKind.PREFERENCE:
        return {"workers": s.bounds, "budget": s.together, "stages": s.stages, "rebalance": False}
    if s.kind is not PlantKind.MICRO_BATCHES:
        # A flow's tuples wait for their batch; on what has no batches the micro-batch model is Kingman's formula.
        waiting = "microbatch" if s.kind is PlantKind.REPLICAS else "kingman"
        return {"objective": "latency", "target": s.goal, "workers": s.bounds, "waiting": waiting}
    return {
        "objective": "latency",
        "horizon": 4,
        "alpha": 0.75,
        "steep": 5.0,
        "target": s.goal,
        "percentile": 1 - s.late,
        "workers": s.bounds,
        "speeds": s.shares if len(s.shares) > 1 else (),
        "speed_knob": Knob.CPU_SHARE,
        "knob": Knob.EXECUTORS,
        "waiting": "microbatch",
        "drain": s.goal,
        "margin": 1.0,
        # Executors take four or five steps to come and slow the batch in which they do: what counts is the load
        # that lasts, so the forecast is slow, has no trend, and leaves short bursts to the margin.
        "forecaster": Holt(alpha=0.3, beta=0.0, phi=0.5),
        "rebalance": False,
    }


def _mead(s: Surroundings) -> Arguments:
    """The least shares, replicas or executors that meet the target under a fitted arrival process."""
    counts = tuple(range(s.bounds[0], s.bounds[1] + 1))
    base: Arguments = {"target": s.goal, "max_states": 8, "keep": 2.0}
    if s.kind is PlantKind.MICRO_BATCHES:
        base |= {
            "percentile": 1 - s.late,
            "levels": s.shares or (1.0,),
            "replicas": counts,
            "knob": Knob.EXECUTORS,
        }
        # Fits of four states, two minutes old at most where they no longer fit: a comparison over an hour takes seconds
        # and not minutes. How much later or dearer that is than eight states fitted anew each time was not measured.
        base |= {"max_states": 4, "refit": 120.0}
        return base | {"interval": max(15.0, 3 * s.period), "best": 2, "least": 200}
    if s.kind is PlantKind.SHARES:
        return base | {"interval": max(10.0, 3 * s.period), "best": 2, "levels": s.shares or CPU_LEVELS}
    if s.kind is PlantKind.NETWORK:
        return base | {"levels": s.shares or CPU_LEVELS}
    return base | {"levels": (1.0,), "replicas": counts, "interval": 30.0}


def _autopilot(s: Surroundings) -> Arguments:
    return {"target": s.goal, "late": s.late, "limits": s.bounds}


def _organic(s: Surroundings) -> Arguments:
    return {"warmup": 2, "samples": 3} | ({"max_replicas": s.bounds[1]} if s.workers else {})


def _fission(s: Surroundings) -> Arguments:
    arguments: Arguments = {"max_replicas": s.bounds[1]} if s.workers else {}
    if s.cores:
        arguments["threads"] = s.cores
    if s.overheads is not None:
        arguments["switching"], arguments["replication"] = s.overheads
    return arguments


_WITH_WORKERS = (PlantKind.MICRO_BATCHES, PlantKind.OPERATOR, PlantKind.PREFERENCE)
_WITH_SHARES = (PlantKind.NETWORK, PlantKind.SHARES)

#: Every policy by its name.
CATALOG: Mapping[str, CatalogEntry] = {
    "Static": CatalogEntry(Static, tuple(PlantKind), _static),
    "Minimum": CatalogEntry(Static, (), _minimum),
    "Maximum": CatalogEntry(Static, (), _maximum),
    "Threshold": CatalogEntry(Threshold, (*_WITH_WORKERS, *_WITH_SHARES), _threshold),
    "RuleBased": CatalogEntry(RuleBased, _WITH_WORKERS, _rule_based),
    "Spl": CatalogEntry(Spl, _WITH_WORKERS, _spl),
    "Ds2": CatalogEntry(Ds2, (*_WITH_WORKERS, PlantKind.REPLICAS), _ds2),
    "Hpa": CatalogEntry(Hpa, (*_WITH_WORKERS, PlantKind.REPLICAS), _scaling),
    "Dhalion": CatalogEntry(Dhalion, (*_WITH_WORKERS, PlantKind.REPLICAS), _dhalion),
    "DynamicAllocation": CatalogEntry(DynamicAllocation, (PlantKind.MICRO_BATCHES,), _scaling),
    "Mpc": CatalogEntry(Mpc, _WITH_WORKERS, _mpc),
    "Mead": CatalogEntry(Mead, (PlantKind.MICRO_BATCHES, PlantKind.OPERATOR, *_WITH_SHARES), _mead),
    "Autopilot": CatalogEntry(Autopilot, (PlantKind.MICRO_BATCHES,), _autopilot),
    "Fuzzy": CatalogEntry(Fuzzy, (PlantKind.PREFERENCE,), _fuzzy),
    "Organic": CatalogEntry(Organic, (PlantKind.REPLICAS,), _organic),
    "PipelinedFission": CatalogEntry(PipelinedFission, (PlantKind.REPLICAS,), _fission),
}
