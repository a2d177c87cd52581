"""The public traces as loads: where they are, and what is done to them before they are replayed.

They are not part of the repository: the folder is named by the environment variable PENSTOCK_DATA, or is
``../shared/data`` beside the checkout.
"""

import gzip
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError, unknown
from penstock.sim import load as generated
from penstock.sim.load import Load
from penstock.traffic import map2
from penstock.traffic.composition import Shaped
from penstock.traffic.shapes import RateShape
from penstock_lab.data import data_folder

#: Name -> what it is.
TRACES = {
    "bc": "Bellcore Ethernet packets of August 1989 (BC-pAug89), 318 a second, self-similar",
    "worldcup": "World Cup 98 requests around a flash crowd, minutes as seconds, with bursts inside the minutes",
    "azure-code": "requests to a code model, bursty, work by tokens",
    "azure-conv": "requests to a conversation model, close to Poisson, work by tokens",
}


def folder() -> Path | None:
    """Where the data is, or None."""
    place = data_folder()
    return place if place.is_dir() else None


def trace(name: str, seed: int = 0) -> Load:
    """One of :data:`TRACES`."""
    if name not in TRACES:
        raise unknown("real trace", name, TRACES)
    place = folder()
    if place is None:
        raise PenstockError(
            f"The trace {name} is not here; name the folder that has it with the environment variable PENSTOCK_DATA."
        )
    if name == "bc":
        return _bc(place)
    if name == "worldcup":
        return _worldcup(place, seed)
    return _azure(place, name.removeprefix("azure-"))


def load(spec: str, seconds: float | None = None, seed: int = 0) -> Load:
    """One of :data:`TRACES` by its name, or whatever ``penstock simulate --trace`` takes."""
    if spec not in TRACES:
        return generated(spec, seconds, seed)
    whole = trace(spec, seed)
    return whole.cut(seconds) if seconds else whole


@lru_cache(maxsize=2)
def _columns(path: Path, *wanted: int) -> Floats:
    with gzip.open(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=",", skiprows=1, usecols=wanted, ndmin=2)


def _bc(place: Path) -> Load:
    times = _columns(place / "bc_paug89.csv.gz", 0)[:, 0] / 1e6
    times = times - times[0]
    return Load("bc", times, float(times[-1]))


def _azure(place: Path, which: str) -> Load:
    rows = _columns(place / f"azure_llm_2023_{which}.csv.gz", 0, 1, 2)
    order = np.argsort(rows[:, 0], kind="stable")
    times = (rows[order, 0] - rows[order[0], 0]) / 1e6
    # Reading a token costs a fraction of writing one.
    work = 0.05 * rows[order, 1] + rows[order, 2]
    return Load(f"azure-{which}", times, float(times[-1]), work / work.mean())


def _worldcup(place: Path, seed: int, minutes: int = 1200, dispersion: float = 30.0) -> Load:
    """Twenty hours around the busiest minute, a minute as a second, a mean of 400 a second.

    The trace only has counts a minute. Inside the minutes arrivals are those of a MAP(2) of index of dispersion 30,
    run at the pace of the counts, so that the load is bursty at the small scale too.
    """
    counts = _requests(place / "worldcup98_per_minute.csv.gz")
    peak = int(np.argmax(counts))
    first = max(0, min(peak - minutes // 2, len(counts) - minutes))
    part = counts[first : first + minutes]
    factors = np.maximum(part / part.mean(), 1e-3)
    points = tuple((float(i), float(f)) for i, f in enumerate(factors))
    times = Shaped(map2(rate=400.0, dispersion=dispersion), RateShape(points)).sample(float(minutes), seed)
    return Load("worldcup", times, float(minutes))


@lru_cache(maxsize=1)
def _requests(path: Path) -> Floats:
    with gzip.open(path, "rt") as lines:
        next(lines)
        return np.array([float(line.rsplit(",", 1)[1]) for line in lines])
