"""An application simulated tuple by tuple: Lindley's recursion at each station, in the order of the graph.

The check on the analytical answer, exact up to chance: bursts, copies and joins are all followed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.models.lindley import simulate_queue
from penstock.models.network import Application, Station

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Stream:
    """Tuples at one point: when they are there, which external tuple each stems from, when that one came."""

    times: Floats
    origins: Ints
    born: Floats

    def pick(self, index: Ints | NDArray[np.bool_]) -> "_Stream":
        return _Stream(self.times[index], self.origins[index], self.born[index])


@dataclass(frozen=True)
class SimulatedNetwork:
    """Response times per station, and end-to-end times per sink, of a simulated application."""

    stations: dict[str, Floats]
    sinks: dict[str, Floats]


def simulate_network(app: Application, tuples: int, rng: np.random.Generator) -> SimulatedNetwork:
    """Follow about ``tuples`` external tuples through the application."""
    if tuples < 1:
        raise PenstockError(f"A simulation needs at least one tuple, not {tuples}.")
    total = sum(process.rate for process in app.sources.values())
    outputs: dict[str, _Stream] = {}
    responses, sinks = {}, {}
    for name in app.order:
        station = app.station(name)
        streams = [_routed(outputs[edge.source], edge.fraction, rng) for edge in app.inputs(name)]
        if name in app.sources:
            process = app.sources[name]
            times = np.cumsum(process.sample(max(int(tuples * process.rate / total), 1), rng))
            streams.append(_Stream(times, np.arange(times.size) + len(outputs) * 2 * tuples, times))
        arrived = _joined(streams) if station.join else _merged(streams)
        gaps = np.diff(arrived.times, prepend=0.0)
        responses[name] = simulate_queue(gaps, station.effective.sample(gaps.size, rng))
        left = _Stream(arrived.times + responses[name], arrived.origins, arrived.born)
        if not app.outputs(name):
            sinks[name] = left.times - left.born
        outputs[name] = _multiplied(left, station, rng)
    return SimulatedNetwork(responses, sinks)


def _merged(streams: list[_Stream]) -> _Stream:
    if len(streams) == 1:
        return streams[0]
    all_ = _Stream(
        *(np.concatenate([getattr(s, field) for s in streams]) for field in ("times", "origins", "born"))
    )
    return all_.pick(np.argsort(all_.times, kind="stable"))


def _joined(streams: list[_Stream]) -> _Stream:
    """A tuple is there when its last copy is."""
    sorted_ = [s.pick(np.argsort(s.origins, kind="stable")) for s in streams]
    latest = np.max([s.times for s in sorted_], axis=0)
    joined = _Stream(latest, sorted_[0].origins, sorted_[0].born)
    return joined.pick(np.argsort(latest, kind="stable"))


def _routed(stream: _Stream, fraction: float, rng: np.random.Generator) -> _Stream:
    return stream if fraction == 1.0 else stream.pick(rng.random(stream.times.size) < fraction)


def _multiplied(stream: _Stream, station: Station, rng: np.random.Generator) -> _Stream:
    """``selectivity`` copies of each tuple on average: its whole part always, one more with the rest as probability."""
    if station.selectivity == 1.0:
        return stream
    whole = int(station.selectivity)
    copies = whole + (rng.random(stream.times.size) < station.selectivity - whole)
    return stream.pick(np.repeat(np.arange(stream.times.size), copies))
