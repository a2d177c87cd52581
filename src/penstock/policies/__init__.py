"""Scaling policies, one file each: pure functions of (state, observation)."""

from penstock.policies.static import Static
from penstock.policies.threshold import Threshold

__all__ = ["Static", "Threshold"]
