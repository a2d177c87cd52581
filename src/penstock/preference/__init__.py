"""Preference kernels on numpy arrays: points (n, d), smaller is better, to sorted row numbers.

The queries over columns are in :mod:`penstock.preference.builders`.
"""

from penstock.preference.best import top_k
from penstock.preference.factor import dominance_factor, k_dominant, top_delta
from penstock.preference.skyline import skyline

__all__ = ["skyline", "k_dominant", "top_delta", "top_k", "dominance_factor"]
