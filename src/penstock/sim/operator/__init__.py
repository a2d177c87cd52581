"""A partitioned-stateful operator: splitter, replicas, merger, keys, CPU frequency, migration of state."""

from penstock.sim.operator.plant import OperatorCosts, PartitionedOperator
from penstock.sim.operator.triggers import Triggers, triggers

__all__ = ["OperatorCosts", "PartitionedOperator", "Triggers", "triggers"]
