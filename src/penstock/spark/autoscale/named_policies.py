"""Policies by name, with parameters that fit a micro-batch query."""

from collections.abc import Callable

from penstock.core.capacity import Knob
from penstock.core.policy import AnyPolicy
from penstock.policies import Static, Threshold
from penstock.spark.autoscale.settings import CPU_LEVELS, Settings


def _threshold(settings: Settings) -> AnyPolicy:
    """Executors by one when the batch takes more than 80 % or less than 50 % of its trigger interval."""
    if settings.executors is None:
        levels = settings.shares if len(settings.shares) > 1 else CPU_LEVELS
        return Threshold(high=0.7, low=0.5, knob=Knob.CPU_SHARE, levels=levels)
    return Threshold(high=0.8, low=0.5, knob=Knob.EXECUTORS, limits=settings.executors)


def _static(settings: Settings) -> AnyPolicy:
    """As many executors as allowed, always."""
    return Static(executors=settings.executors[1] if settings.executors else None)


def _minimum(settings: Settings) -> AnyPolicy:
    """As few executors as allowed, always."""
    return Static(executors=settings.executors[0] if settings.executors else None)


POLICIES: dict[str, Callable[[Settings], AnyPolicy]] = {
    "threshold": _threshold,
    "static": _static,
    "minimum": _minimum,
}
