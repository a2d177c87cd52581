"""Regions of pipelines and replicas on a machine with few cores: the plant of Joker."""

from penstock.sim.regions.graph import Engine, Graph, Operator, Region
from penstock.sim.regions.plant import RegionsPlant

__all__ = ["Engine", "Graph", "Operator", "Region", "RegionsPlant"]
