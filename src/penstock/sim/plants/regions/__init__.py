"""Regions of pipelines and replicas on a machine with few cores: the plant of Joker."""

from penstock.sim.plants.regions.graph import Engine, RegionGraph, RegionOperator, SimulatedRegion
from penstock.sim.plants.regions.regions_plant import RegionsPlant

__all__ = ["Engine", "RegionGraph", "RegionOperator", "SimulatedRegion", "RegionsPlant"]
