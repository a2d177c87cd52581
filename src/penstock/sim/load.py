"""Loads for simulated runs: a trace file, a folder of Parquet files, or a generator with its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError, unknown
from penstock.traffic import map2, poisson
from penstock.traffic.composition import Shaped
from penstock.traffic.process import check_rate, check_size
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import steps
from penstock.traffic.trace import read_trace
from penstock.traffic.walk import RandomWalk

#: Arrivals of a simulated run are held in memory.
MOST_SIMULATED = 2e8


@dataclass(frozen=True, eq=False)
class Load:
    """Arrivals in seconds, the work of each relative to the mean where it is known, and how long it lasts."""

    name: str
    arrivals: Floats
    seconds: float
    work: Floats | None = None

    def __post_init__(self) -> None:
        if not len(self.arrivals):
            raise PenstockError(
                f"The load '{self.name}' has no arrivals; give a longer time or a higher rate."
            )
        if self.arrivals[0] < 0:
            raise PenstockError(
                f"The load '{self.name}' starts before time 0; shift its arrivals so that none is negative."
            )
        if not self.seconds > 0:
            raise PenstockError(
                f"All arrivals of the load '{self.name}' are at one time, so it has no length; give a trace that lasts longer."
            )

    @property
    def rate(self) -> float:
        """Mean arrivals a second."""
        return len(self.arrivals) / self.seconds

    def cut(self, seconds: float) -> "Load":
        """The first so many seconds."""
        rows = int(np.searchsorted(self.arrivals, seconds))
        work = None if self.work is None else self.work[:rows]
        return Load(self.name, self.arrivals[:rows], min(seconds, self.seconds), work)


Parameters = dict[str, float]
Generator = Callable[[Parameters, float, int], Floats]


def _poisson(p: Parameters, seconds: float, seed: int) -> Floats:
    return poisson(p["rate"]).sample(seconds, seed)


def _map2(p: Parameters, seconds: float, seed: int) -> Floats:
    return map2(rate=p["rate"], dispersion=p["dispersion"]).sample(seconds, seed)


def _selfsimilar(p: Parameters, seconds: float, seed: int) -> Floats:
    return SelfSimilar(p["rate"], hurst=p["hurst"]).sample(seconds, seed)


def _walk(p: Parameters, seconds: float, seed: int) -> Floats:
    return RandomWalk(p["rate"]).sample(seconds, seed)


def _steps(p: Parameters, seconds: float, seed: int) -> Floats:
    """The rate, then ``factor`` times as much from a third to two thirds of the time, then the rate again."""
    shape = steps((seconds / 3, p["factor"]), (2 * seconds / 3, 1.0))
    return Shaped(poisson(p["rate"]), shape).sample(seconds, seed)


#: Name -> (how to make it, its parameters with their defaults).
GENERATORS: dict[str, tuple[Generator, Parameters]] = {
    "poisson": (_poisson, {"rate": 1000.0}),
    "map2": (_map2, {"rate": 1000.0, "dispersion": 500.0}),
    "selfsimilar": (_selfsimilar, {"rate": 1000.0, "hurst": 0.8}),
    "walk": (_walk, {"rate": 1000.0}),
    "steps": (_steps, {"rate": 500.0, "factor": 3.0}),
}


def load(
    spec: str, seconds: float | None = None, seed: int = 0, column: str = "arrival", unit: str = "s"
) -> Load:
    """A load from words: ``FILE``, ``FOLDER`` of Parquet files, ``NAME`` or ``NAME:parameter=value,...``.

    ``column`` and ``unit`` (s, ms, us or ns) say where a file has its arrivals, of whatever time they count from;
    what else is in it is not read.

    >>> load("poisson:rate=100", seconds=10.0, seed=1).rate > 50
    True
    """
    name, _, rest = spec.partition(":")
    asked = None if seconds is None else _length(seconds)
    if name in GENERATORS:
        make, defaults = GENERATORS[name]
        length, parameters = asked or 600.0, _parameters(name, rest, defaults)
        check_size(parameters["rate"] * parameters.get("factor", 1.0), length, MOST_SIMULATED)
        return Load(spec, make(parameters, length, seed), length)
    if Path(spec).suffix in (".csv", ".gz", ".parquet") or _is_there(Path(spec)):
        trace = read_trace(spec, column, unit, payload=False, event_times=False)
        whole = Load(Path(spec).name or spec, trace.arrival, float(trace.arrival[-1]))
    else:
        raise unknown("trace or generator", name, list(GENERATORS))
    return whole.cut(asked) if asked else whole


def _is_there(path: Path) -> bool:
    """Whether there is a file or a folder, also one that cannot be looked at, of which reading tells why."""
    try:
        return path.exists()
    except OSError as error:  # words that are too long for a path name none
        return isinstance(error, PermissionError)


def _length(seconds: float) -> float:
    if not 0 < seconds < inf:
        raise PenstockError(f"A load of {seconds:g} seconds is impossible; give a number above zero.")
    return seconds


def _parameters(name: str, text: str, defaults: Parameters) -> Parameters:
    given = dict(defaults)
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in defaults:
            raise unknown(f"parameter of {name}", key, defaults)
        try:
            given[key] = float(value)
            check_rate(given["rate"])
        except ValueError:
            raise PenstockError(f"'{part}' of the load {name} is no number; write {key}=1000.") from None
    return given
