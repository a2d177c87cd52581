"""Policies by name, with parameters that fit a micro-batch query."""

from collections.abc import Callable

from penstock.core.capacity import Knob
from penstock.core.policy import AnyPolicy
from penstock.forecast import Holt
from penstock.policies import Mead, Mpc, RuleBased, Spl, Static, Threshold
from penstock.spark.attach.settings import CPU_LEVELS, Settings

#: Response that is aimed at where no target was given, in seconds.
TARGET = 5.0


def _threshold(settings: Settings) -> AnyPolicy:
    """Executors by one when the load leaves 50 % to 80 % of what can be served; CPU shares likewise."""
    if settings.executors is None:
        levels = settings.shares if len(settings.shares) > 1 else CPU_LEVELS
        return Threshold(high=0.7, low=0.5, knob=Knob.CPU_SHARE, levels=levels)
    return Threshold(high=0.8, low=0.5, knob=Knob.EXECUTORS, limits=settings.executors)


def _rules(settings: Settings) -> AnyPolicy:
    """One more above 90 %, one less below 50 %."""
    return RuleBased(high=0.9, low=0.5, knob=Knob.EXECUTORS, limits=_bounds(settings))


def _spl(settings: Settings) -> AnyPolicy:
    """Congestion and remembered throughput."""
    return Spl(interval=max(4.0, 2 * settings.period), knob=Knob.EXECUTORS, limits=_bounds(settings))


def _mpc(settings: Settings) -> AnyPolicy:
    """Model-predictive control with the micro-batch model: forecast, head-room for its errors, and what waits."""
    target = settings.target or TARGET
    return Mpc(
        objective="latency",
        horizon=4,
        alpha=0.75,
        steep=5.0,
        target=target,
        percentile=0.95,
        workers=_bounds(settings),
        speeds=settings.shares if len(settings.shares) > 1 else (),
        speed_knob=Knob.CPU_SHARE,
        knob=Knob.EXECUTORS,
        waiting="microbatch",
        drain=target,
        margin=1.0,
        # Executors take four or five steps to come and slow the batch in which they do: what counts is the load
        # that lasts, so the forecast is slow, has no trend, and leaves short bursts to the margin.
        forecaster=Holt(alpha=0.3, beta=0.0, phi=0.5),
        rebalance=False,
    )


def _mead(settings: Settings) -> AnyPolicy:
    """Executors and CPU shares by the micro-batch model fed with a fitted arrival process."""
    least, most = _bounds(settings)
    return Mead(
        model="map",
        target=settings.target or TARGET,
        percentile=0.95,
        levels=settings.shares or (1.0,),
        replicas=tuple(range(least, most + 1)),
        knob=Knob.EXECUTORS,
        interval=max(15.0, 3 * settings.period),
        best=2,
        max_states=8,
        least=200,
    )


def _maximum(settings: Settings) -> AnyPolicy:
    """As many executors as allowed, always."""
    return Static(executors=_bounds(settings)[1])


def _minimum(settings: Settings) -> AnyPolicy:
    """As few executors as allowed, always."""
    return Static(executors=_bounds(settings)[0], name="Static minimum")


def _bounds(settings: Settings) -> tuple[int, int]:
    return settings.executors or (1, 1)


POLICIES: dict[str, Callable[[Settings], AnyPolicy]] = {
    "threshold": _threshold,
    "rulebased": _rules,
    "spl": _spl,
    "mpc": _mpc,
    "mead": _mead,
    "static": _maximum,
    "maximum": _maximum,
    "minimum": _minimum,
}
