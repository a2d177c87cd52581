"""Scaling policies, one file each: pure functions of (state, observation)."""

from typing import TYPE_CHECKING

from penstock.core.deprecation import moved
from penstock.policies.autopilot import Autopilot
from penstock.policies.dhalion import Dhalion
from penstock.policies.ds2 import Ds2
from penstock.policies.fuzzy import Fuzzy
from penstock.policies.hpa import Hpa
from penstock.policies.mead import Mead
from penstock.policies.mpc import Mpc
from penstock.policies.organic import Organic
from penstock.policies.pipelined_fission import PipelinedFission
from penstock.policies.rule_based import RuleBased
from penstock.policies.spl import Spl
from penstock.policies.static import Static
from penstock.policies.threshold import Threshold

__all__ = [
    "Autopilot",
    "Dhalion",
    "Ds2",
    "Fuzzy",
    "Hpa",
    "Mead",
    "Mpc",
    "Organic",
    "PipelinedFission",
    "RuleBased",
    "Spl",
    "Static",
    "Threshold",
]

if not TYPE_CHECKING:
    __getattr__ = moved("penstock.policies", {"DynamicAllocation": "dynamic_allocation"})
