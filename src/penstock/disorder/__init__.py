"""Out-of-order streams: how long to wait, at batch granularity. Users have the names from :mod:`penstock` itself."""

from penstock.disorder.adaptive import AdaptiveSlack as AdaptiveSlack
from penstock.disorder.fixed_delay import FixedDelay as FixedDelay
from penstock.disorder.in_order import InOrder as InOrder
from penstock.disorder.k_slack import KSlack as KSlack
