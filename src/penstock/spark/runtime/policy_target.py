"""The response that a policy aims at, for all who show a run: its journal, its page, its metrics."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from penstock.core.metrics import Metric
from penstock.core.policy import AnyPolicy
from penstock.policies.around import Around


@dataclass(frozen=True, slots=True)
class PolicyTarget:
    """Seconds that a response time should not exceed."""

    seconds: float
    metric: Metric

    @classmethod
    def of(cls, policy: AnyPolicy | None) -> "PolicyTarget | None":
        """What a policy aims at by its fields ``target`` and ``percentile`` (or ``late``); None where that is no response.

        A ``percentile`` of None is the mean. Where places have ``targets`` of their own no single one is right.

        >>> from penstock.policies import Mpc, Threshold
        >>> PolicyTarget.of(Mpc("latency", target=2.0)).header
        {'target': 2.0, 'metric': 'latency_mean'}
        >>> PolicyTarget.of(Mpc("throughput", target=2.0)), PolicyTarget.of(Threshold())
        (None, None)
        """
        inside: Any = policy
        while isinstance(inside, Around):
            inside = inside.policy
        seconds, late = getattr(inside, "target", None), getattr(inside, "late", None)
        percentile = 1 - late if isinstance(late, int | float) else getattr(inside, "percentile", "")
        # Types are no promise: a policy of the user's may call anything by these names.
        if not isinstance(seconds, int | float) or not isinstance(percentile, int | float | None):
            return None
        if getattr(inside, "objective", "latency") != "latency" or getattr(inside, "targets", None):
            return None
        return cls(float(seconds), Metric.of_response(percentile)) if isfinite(seconds) else None

    @property
    def header(self) -> dict[str, Any]:
        """The same as the header of a journal has it."""
        return {"target": self.seconds, "metric": self.metric.value}
