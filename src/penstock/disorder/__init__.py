"""Out-of-order streams: how long to wait, at batch granularity."""

from penstock.disorder.adaptive import AdaptiveSlack
from penstock.disorder.fixed_delay import FixedDelay
from penstock.disorder.in_order import InOrder
from penstock.disorder.k_slack import KSlack
from penstock.disorder.state import Disorder, DisorderState
from penstock.disorder.stats import BatchStats, partition_stats

__all__ = [
    "KSlack",
    "AdaptiveSlack",
    "FixedDelay",
    "InOrder",
    "Disorder",
    "DisorderState",
    "BatchStats",
    "partition_stats",
]
