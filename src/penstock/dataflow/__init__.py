"""Flows: ready-made operators, compiled running figures, and a run in this process for tests.

A flow that runs on Spark is :class:`penstock.Flow`.
"""

from penstock.dataflow.firing import need_all as need_all
from penstock.dataflow.firing import need_any as need_any
from penstock.dataflow.operators import Operator as Operator
from penstock.dataflow.operators import operator as operator
from penstock.dataflow.ready.deduplicate import deduplicate
from penstock.dataflow.ready.interval_join import interval_join
from penstock.dataflow.ready.sessions import sessions
from penstock.dataflow.ready.top_n import top_n
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_count, running_max, running_sum

__all__ = [
    "sessions", "deduplicate", "interval_join", "top_n",
    "running_count", "running_max", "running_sum",
    "Reference",
]  # fmt: skip
