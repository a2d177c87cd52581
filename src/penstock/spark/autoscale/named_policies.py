"""Policies by name, with parameters that fit a micro-batch query."""

from collections.abc import Callable

from penstock.core.capacity import Knob
from penstock.core.policy import AnyPolicy
from penstock.policies import Mead, Mpc, RuleBased, Spl, Static, Threshold
from penstock.spark.autoscale.batch_mpc import BatchMpc
from penstock.spark.autoscale.settings import CPU_LEVELS, Settings

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
    """The paper's model-predictive control, its response that of the fitted micro-batch model."""
    shares = settings.shares if len(settings.shares) > 1 else ()
    return Mpc(
        objective="latency",
        target=settings.target or TARGET,
        percentile=0.95,
        workers=_bounds(settings),
        speeds=shares,
        speed_knob=Knob.CPU_SHARE,
        knob=Knob.EXECUTORS,
        waiting="microbatch",
        drain=settings.target or TARGET,
        rebalance=False,
    )


def _batch_mpc(settings: Settings) -> AnyPolicy:
    """Model-predictive control that forecasts and adds its own error, with the micro-batch model."""
    shares = settings.shares if len(settings.shares) > 1 else ()
    return BatchMpc(target=settings.target or TARGET, executors=_bounds(settings), shares=shares)


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
    "batchmpc": _batch_mpc,
    "mead": _mead,
    "static": _maximum,
    "maximum": _maximum,
    "minimum": _minimum,
}
