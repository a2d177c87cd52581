"""Aggregates of windows: counts, sums, means, extremes, quantiles, distinct counts, and the base of your own.

A query over them is :class:`penstock.WindowQuery`.
"""

from penstock.aggregates.aggregate import Aggregate
from penstock.aggregates.exact import count, max_of, mean_of, min_of, sum_of
from penstock.aggregates.sketches import distinct_of, quantile_of

__all__ = ["Aggregate", "count", "sum_of", "mean_of", "min_of", "max_of", "quantile_of", "distinct_of"]
