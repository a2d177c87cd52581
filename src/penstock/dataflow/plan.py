"""How a flow is laid out at one moment: replicas, routing and pipelines of each region.

A plan is a value. It is committed with every micro-batch, and a change of it takes effect with the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.core.errors import PenstockError
from penstock.dataflow.keys import DEFAULT_GROUPS
from penstock.dataflow.regions import Region, Regions
from penstock.dataflow.routing import Routing, check_routing, rescale, spread


@dataclass(frozen=True)
class RegionPlan:
    """One region: how many replicas, who has which key group, where its pipelines begin.

    ``overlap`` lets the region work on a micro-batch while what is before it works on the next one, as the second
    and later pipelines of a region always do.
    """

    replicas: int = 1
    routing: Routing = ()
    pipelines: tuple[int, ...] = (0,)
    overlap: bool = False


@dataclass(frozen=True)
class Plan:
    """The layout of all regions."""

    groups: int = DEFAULT_GROUPS
    regions: Mapping[str, RegionPlan] = field(default_factory=dict)

    @classmethod
    def first(
        cls, regions: Regions, groups: int = DEFAULT_GROUPS, replicas: Mapping[str, int] | None = None
    ) -> "Plan":
        """One pipeline and one replica each, or as many replicas as given."""
        plan = cls(groups, {r.name: RegionPlan(routing=spread(groups, 1)) for r in regions})
        return plan.changed(regions, replicas=replicas or {})

    def changed(
        self,
        regions: Regions,
        *,
        replicas: Mapping[str, int] | None = None,
        pipelines: Mapping[str, tuple[int, ...]] | None = None,
        routing: Mapping[str, Routing] | None = None,
        overlap: Mapping[str, bool] | None = None,
    ) -> "Plan":
        """The plan with some things changed; regions go by their name or by the name of one of their operators."""
        made = dict(self.regions)
        for name, n in (replicas or {}).items():
            region = regions.named(name)
            made[region.name] = self._rescaled(region, made[region.name], n)
        for name, table in (routing or {}).items():
            region = regions.named(name)
            check_routing(tuple(table), self.groups, made[region.name].replicas, region.name)
            made[region.name] = replace(made[region.name], routing=tuple(table))
        for name, starts in (pipelines or {}).items():
            region = regions.named(name)
            made[region.name] = replace(made[region.name], pipelines=_pipelines(region, starts))
        for name, wanted in (overlap or {}).items():
            region = regions.named(name)
            made[region.name] = replace(made[region.name], overlap=bool(wanted))
        return replace(self, regions=made)

    def fitted(self, regions: Regions) -> "Plan":
        """The plan for a flow whose stateless operators changed since: regions it does not know begin anew."""
        fresh = Plan.first(regions, self.groups)
        kept = {
            r.name: self.regions[r.name]
            for r in regions
            if r.name in self.regions
            and len(r.operators) > max(self.regions[r.name].pipelines)
            and (r.replicable or self.regions[r.name].replicas == 1)
        }
        same = kept == self.regions and kept.keys() == fresh.regions.keys()
        return self if same else replace(fresh, regions={**fresh.regions, **kept})

    def _rescaled(self, region: Region, before: RegionPlan, replicas: int) -> RegionPlan:
        if replicas != 1 and not region.replicable:
            raise PenstockError(
                f"The region '{region.name}' is {region.kind} and has one replica; only partitioned and stateless regions can have {replicas}."
            )
        if not 1 <= replicas <= self.groups:
            raise PenstockError(
                f"The region '{region.name}' can have 1 to {self.groups} replicas, not {replicas}."
            )
        return replace(before, replicas=int(replicas), routing=rescale(before.routing, int(replicas)))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"groups": self.groups, "regions": {n: {**vars(r)} for n, r in self.regions.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Plan":
        """The value that ``to_json`` gave."""
        regions = {
            name: RegionPlan(r["replicas"], tuple(r["routing"]), tuple(r["pipelines"]), r["overlap"])
            for name, r in value["regions"].items()
        }
        return cls(value["groups"], regions)


def _pipelines(region: Region, starts: tuple[int, ...]) -> tuple[int, ...]:
    given = tuple(int(s) for s in starts)
    if not given or given[0] != 0 or list(given) != sorted(set(given)) or given[-1] >= len(region.operators):
        raise PenstockError(
            f"The pipelines of region '{region.name}' must begin at rising places from 0 below {len(region.operators)}, not {given}."
        )
    return given
