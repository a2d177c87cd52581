"""Several queries that share executors, as one whose load is that of all.

The utilisation of a query is its own load over all slots, so two queries at 0.6 need 1.2 times what there is. Policies of
executors that know one load see

    rate = sum of rate_i,   service = sum of rate_i service_i / rate,   utilisation = sum of utilisation_i

with the intervals, the overhead and the arrivals in time of the query that brings the most work, and the slowest
of the response times.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan, nan

from penstock.core.observation import Latency, Observation, StageObservation


def as_one_query(observation: Observation, stages: Sequence[StageObservation]) -> Observation:
    """The observation with one stage for those of its queries that are looked at.

    >>> from penstock.core.capacity import Capacity
    >>> two = [StageObservation(n, Capacity.steady(4), arrival_rate=400.0, service_time=0.005, utilisation=0.5) for n in "ab"]
    >>> seen = Observation(1.0, 1.0, tuple(two), executors=Capacity.steady(4), slots=4.0)
    >>> one = as_one_query(seen, seen.stages).stage()
    >>> one.name, one.arrival_rate, one.utilisation
    ('a + b', 800.0, 1.0)
    """
    together = observation.executors is not None and len(stages) > 1 and not any(s.downstream for s in stages)
    return replace(observation, stages=(_merged(stages),) if together else tuple(stages))


def _merged(stages: Sequence[StageObservation]) -> StageObservation:
    works = [max(0.0, _or_none(s.arrival_rate)) * max(0.0, _or_none(s.service_time)) for s in stages]
    most = stages[works.index(max(works))]
    rate, work = _sum([s.arrival_rate for s in stages]), sum(works)
    more = rate / most.arrival_rate if most.arrival_rate > 0 and rate > 0 else 1.0
    load = _sum([s.utilisation for s in stages])
    extra = dict(most.extra)
    for name in ("batches", "batch_rows"):
        if name in extra:
            extra[name] *= more
    return replace(
        most,
        name=" + ".join(s.name for s in stages),
        arrival_rate=rate,
        interarrival_rows=most.interarrival_rows * more,
        service_time=work / rate if work > 0 else most.service_time,
        utilisation=load,
        congestion=max(0.0, 1.0 - 1.0 / load) if load > 0 else load,
        busy_time=_sum([s.busy_time for s in stages]),
        tuples_in=_sum([s.tuples_in for s in stages]),
        tuples_out=_sum([s.tuples_out for s in stages]),
        backlog=_sum([s.backlog for s in stages]),
        latency=_slowest([s.latency for s in stages]),
        extra=extra,
    )


def _slowest(told: Sequence[Latency]) -> Latency:
    return Latency(
        *(
            max((v for v in values if not isnan(v)), default=nan)
            for values in zip(*map(_values, told), strict=True)
        )
    )


def _values(told: Latency) -> tuple[float, ...]:
    return told.mean, told.p50, told.p95, told.p99, told.maximum


def _sum(values: Sequence[float]) -> float:
    """Of what is known; nan where nothing is."""
    known = [v for v in values if not isnan(v)]
    return sum(known) if known else nan


def _or_none(value: float) -> float:
    return 0.0 if isnan(value) else value
