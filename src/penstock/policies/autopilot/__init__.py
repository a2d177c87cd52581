"""A policy that chooses among policies, by rehearsing them on the arrivals and costs of this very run."""

from penstock.policies.autopilot.autopilot import Autopilot

__all__ = ["Autopilot"]
