"""Flows: operators, firing rules, compiled running figures, and a run in this process for tests.

A flow that runs on Spark is :class:`penstock.Flow`.
"""

from penstock.dataflow.firing import need_all, need_any
from penstock.dataflow.operators import Operator, operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_count, running_max, running_sum

__all__ = [
    "Operator", "operator", "need_all", "need_any",
    "running_count", "running_max", "running_sum",
    "Reference",
]  # fmt: skip
