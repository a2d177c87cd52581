"""Which of the policies that were simulated to take: a ranking, and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from penstock.sim.closed_loop import ClosedLoopResult


@dataclass(frozen=True)
class Recommendation:
    """The policy to take, whether it keeps the target, what it costs, and what it is compared with and that one's cost."""

    policy: str
    meets: bool
    late: float
    core_seconds: float
    reference: str
    reference_core_seconds: float
    sentence: str

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def ranked(outcomes: Sequence[ClosedLoopResult], late: float) -> list[ClosedLoopResult]:
    """Those that keep the target by their cost, then the others by their late tuples."""
    meets = sorted((o for o in outcomes if _meets(o, late)), key=lambda o: o.core_seconds)
    rest = sorted((o for o in outcomes if not _meets(o, late)), key=lambda o: (_late(o), o.core_seconds))
    return [*meets, *rest]


def recommend(
    outcomes: Sequence[ClosedLoopResult], target: float, late: float, reference: str = "Static"
) -> Recommendation:
    """The first of the ranking, compared with the policy called ``reference``, or with the costliest."""
    order = ranked(outcomes, late)
    best = order[0]
    named = [o for o in outcomes if o.policy == reference]
    other = named[0] if named else max(outcomes, key=lambda o: o.core_seconds)
    return Recommendation(
        best.policy,
        _meets(best, late),
        _late(best),
        best.core_seconds,
        other.policy,
        other.core_seconds,
        _sentence(best, other, target, late),
    )


def _sentence(best: ClosedLoopResult, other: ClosedLoopResult, target: float, late: float) -> str:
    if not _meets(best, late):
        return (
            f"None keeps {1 - late:.0%} of the tuples within {target:g} s; {best.policy} comes closest with {_late(best):.1%} late "
            f"for {best.core_seconds:,.0f} core-seconds: allow more workers or a longer target."
        )
    text = f"Take {best.policy}: {_late(best):.1%} of the tuples later than {target:g} s for {best.core_seconds:,.0f} core-seconds"
    if other.policy == best.policy:
        return text + "; nothing here is cheaper and keeps the target."
    if not _meets(other, late):
        return text + (
            f"; {other.policy} misses the target with {_late(other):.1%} late for {other.core_seconds:,.0f} core-seconds."
        )
    saved = 1 - best.core_seconds / other.core_seconds if other.core_seconds > 0 else 0.0
    return text + f"; {other.policy} takes {other.core_seconds:,.0f} ({saved:.0%} saved)."


def _late(outcome: ClosedLoopResult) -> float:
    return 1.0 if isnan(outcome.late) else outcome.late


def _meets(outcome: ClosedLoopResult, late: float) -> bool:
    return _late(outcome) <= late
