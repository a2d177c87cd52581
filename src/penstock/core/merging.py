"""Two observations in a row as one, for a policy that decides less often than a plant tells.

Sums stay sums, rates and utilisations are means over time, costs and response times are means over tuples, and what is
set (capacities, routing) or stands at the end (backlog, the last change) is that of the later one. Figures of another
configuration would blur those of the present one: where the configuration changed in between, only the later counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan

from penstock.core.observation import (
    KeyLoad,
    Latency,
    Observation,
    OperatorObservation,
    RegionObservation,
    StageObservation,
)

_Mean = Callable[[float, float], float]


def merge(earlier: Observation, later: Observation) -> Observation:
    """Both periods as one.

    >>> from penstock.core.capacity import Capacity
    >>> def seen(time, period, busy):
    ...     return Observation(time, period, (StageObservation("op", Capacity.steady(1), utilisation=busy),))
    >>> both = merge(seen(1.0, 1.0, 0.8), seen(4.0, 3.0, 0.0))
    >>> both.period, round(both.stage("op").utilisation, 3)
    (4.0, 0.2)
    """
    if _configuration(earlier) != _configuration(later):
        return later
    time = _mean_by(earlier.period, later.period)
    given = _mean_by(_given(earlier), _given(later))
    return replace(
        later,
        period=earlier.period + later.period,
        stages=tuple(_stage(a, b, time) for a, b in zip(earlier.stages, later.stages, strict=True)),
        regions=tuple(_region(a, b, time) for a, b in zip(earlier.regions, later.regions, strict=True)),
        latency=_latency(earlier.latency, later.latency, given),
        power=time(earlier.power, later.power),
        extra={**earlier.extra, **_known(later.extra)},
    )


def merged(observations: Sequence[Observation]) -> Observation:
    """All of them as one; there must be one at least."""
    whole = observations[0]
    for observation in observations[1:]:
        whole = merge(whole, observation)
    return whole


def _configuration(o: Observation) -> tuple[object, ...]:
    return (
        tuple((s.name, s.workers.observed, s.cpu_share, s.frequency, s.shedding) for s in o.stages),
        tuple((r.name, r.replicas.observed, r.pipelines, r.keys and r.keys.routing) for r in o.regions),
        o.executors and o.executors.observed,
    )


def _stage(a: StageObservation, b: StageObservation, time: _Mean) -> StageObservation:
    taken = _mean_by(a.tuples_in, b.tuples_in)
    given = _mean_by(a.tuples_out, b.tuples_out)
    return replace(
        b,
        arrival_rate=time(a.arrival_rate, b.arrival_rate),
        arrival_scv=time(a.arrival_scv, b.arrival_scv),
        arrival_dispersion=time(a.arrival_dispersion, b.arrival_dispersion),
        interarrivals=a.interarrivals if b.interarrivals is None else b.interarrivals,
        interarrival_rows=a.interarrival_rows if b.interarrivals is None else b.interarrival_rows,
        busy_time=_sum(a.busy_time, b.busy_time),
        tuples_in=_sum(a.tuples_in, b.tuples_in),
        tuples_out=_sum(a.tuples_out, b.tuples_out),
        backlog=_latest(a.backlog, b.backlog),
        latency=_latency(a.latency, b.latency, given),
        waiting_time=taken(a.waiting_time, b.waiting_time),
        service_time=taken(a.service_time, b.service_time),
        service_scv=taken(a.service_scv, b.service_scv),
        utilisation=time(a.utilisation, b.utilisation),
        worker_utilisation=_each(a.worker_utilisation, b.worker_utilisation, time),
        splitting=taken(a.splitting, b.splitting),
        operators=_operators(a, b, taken),
        keys=_keys(a.keys, b.keys, taken),
        visits=taken(a.visits, b.visits),
        overhead_time=_latest(a.overhead_time, b.overhead_time),
        batch_duration=_latest(a.batch_duration, b.batch_duration),
        fixed_time=_latest(a.fixed_time, b.fixed_time),
        congestion=time(a.congestion, b.congestion),
        extra={**a.extra, **_known(b.extra)},
    )


def _region(a: RegionObservation, b: RegionObservation, time: _Mean) -> RegionObservation:
    return replace(b, throughput=time(a.throughput, b.throughput), keys=_keys(a.keys, b.keys, time))


def _operators(a: StageObservation, b: StageObservation, taken: _Mean) -> tuple[OperatorObservation, ...]:
    before = {o.name: o for o in a.operators}
    busy = _mean_by(a.busy_time, b.busy_time)
    return tuple(
        replace(
            o,
            cost=busy(before[o.name].cost, o.cost),
            service_time=taken(before[o.name].service_time, o.service_time),
            selectivity=taken(before[o.name].selectivity, o.selectivity),
        )
        if o.name in before
        else o
        for o in b.operators
    )


def _keys(a: KeyLoad | None, b: KeyLoad | None, mean: _Mean) -> KeyLoad | None:
    if a is None or b is None or len(a.frequencies) != len(b.frequencies):
        return b or a
    return replace(b, frequencies=_each(a.frequencies, b.frequencies, mean), costs=b.costs or a.costs)


def _latency(a: Latency, b: Latency, mean: _Mean) -> Latency:
    """Percentiles of the whole lie between those of its parts; their mean is near enough for a decision."""
    return Latency(
        mean(a.mean, b.mean),
        mean(a.p50, b.p50),
        mean(a.p95, b.p95),
        mean(a.p99, b.p99),
        _latest(a.maximum, b.maximum) if isnan(a.maximum) or isnan(b.maximum) else max(a.maximum, b.maximum),
    )


def _each(a: tuple[float, ...], b: tuple[float, ...], mean: _Mean) -> tuple[float, ...]:
    return tuple(mean(x, y) for x, y in zip(a, b, strict=True)) if len(a) == len(b) else b


def _mean_by(first: float, second: float) -> _Mean:
    """The mean of two figures with these weights; one that is unknown does not count."""
    first, second = (0.0 if isnan(w) else max(w, 0.0) for w in (first, second))
    # Where neither has any weight, such as two batches without a tuple, the later figure is as good as any.
    share = first / (first + second) if first + second > 0 else 0.0

    def mean(a: float, b: float) -> float:
        if isnan(a) or isnan(b):
            return _latest(a, b)
        return b if a == b or share == 0.0 else share * a + (1.0 - share) * b

    return mean


def _sum(a: float, b: float) -> float:
    return _latest(a, b) if isnan(a) or isnan(b) else a + b


def _latest(a: float, b: float) -> float:
    return a if isnan(b) else b


def _given(observation: Observation) -> float:
    return observation.stages[-1].tuples_out if observation.stages else nan


def _known(extra: Mapping[str, float]) -> dict[str, float]:
    return {k: v for k, v in extra.items() if not isnan(v)}
