"""Out-of-order streams: how long to wait, at batch granularity."""

from penstock.disorder.adaptive import AdaptiveSlack
from penstock.disorder.fixed_delay import FixedDelay
from penstock.disorder.in_order import InOrder
from penstock.disorder.k_slack import KSlack

__all__ = ["InOrder", "FixedDelay", "KSlack", "AdaptiveSlack"]
