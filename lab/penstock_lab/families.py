"""Loads by name for comparisons of policies: recorded traces, and families that are drawn anew for every seed."""

import gzip
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import unknown
from penstock.sim.load import Load
from penstock.traffic import map2, poisson
from penstock.traffic.composition import Shaped
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import daily, flash_crowd, steps
from penstock.traffic.walk import RandomWalk
from penstock_lab import recorded_traces

#: Rows a second of drawn loads: enough for a share of late rows, few enough to be quick.
RATE = 100.0
#: Recorded loads -> what they are.
RECORDED = recorded_traces.TRACES | {
    "quotes": "US equity quotes of 2013-10-10, 9:30 to 16:00, six times as fast, every tenth",
    "trades": "US equity trades of 2013-10-10, 9:30 to 16:00, six times as fast, every third",
}


def _map2(dispersion: float) -> Callable[[float, int], Floats]:
    return lambda seconds, seed: map2(rate=RATE, dispersion=dispersion).sample(seconds, seed)


def _steps(seconds: float, seed: int) -> Floats:
    return Shaped(poisson(RATE), steps(*step_times(seconds, seed))).sample(seconds, seed)


def step_times(seconds: float, seed: int) -> list[tuple[float, float]]:
    """When the load of the family ``steps`` changes, and to which factor: every three to ten minutes, half to four times the first."""
    rng, at, found = np.random.default_rng(seed), 0.0, []
    while (at := at + float(rng.uniform(180, 600))) < seconds:
        found.append((at, float(np.exp(rng.uniform(np.log(0.5), np.log(4.0))))))
    return found


def _cosine(seconds: float, seed: int) -> Floats:
    """Days of twenty minutes, at night a fifth of noon, with small bursts."""
    return Shaped(map2(rate=RATE, dispersion=30.0), daily(1200.0, 0.67)).sample(seconds, seed)


def _flash(seconds: float, seed: int) -> Floats:
    """Crowds of four to eight times the load, one in every half an hour, there within a minute."""
    rng = np.random.default_rng(seed)
    shape = None
    for begin in np.arange(0.0, seconds, 1800.0):
        at, peak = begin + float(rng.uniform(300, 1500)), float(rng.uniform(4, 8))
        one = flash_crowd(at, peak, rise=float(rng.uniform(20, 90)), decay=float(rng.uniform(60, 300)))
        shape = one if shape is None else shape * one
    assert shape is not None
    return Shaped(poisson(RATE), shape).sample(seconds, seed)


def _by_the_second(rates: Floats, rng: np.random.Generator) -> Floats:
    counts = rng.poisson(rates)
    return np.sort(np.repeat(np.arange(len(rates)), counts) + rng.random(int(counts.sum())))


def _on_and_off(seconds: float, seed: int) -> Floats:
    """Ten times as much for a minute on average, then for three minutes not."""
    rng, rates, at, on = np.random.default_rng(seed), np.zeros(int(seconds)), 0, True
    while at < len(rates):
        length = 5 + int(rng.exponential(60.0 if on else 180.0))
        rates[at : at + length] = (3.0 if on else 0.3) * RATE
        at, on = at + length, not on
    return _by_the_second(rates, rng)


def _spikes(seconds: float, seed: int) -> Floats:
    """Spikes of 5 to 25 seconds, three to nine times as high, one in four minutes on average."""
    rng, times = np.random.default_rng(seed), np.arange(int(seconds))
    rates = np.full(len(times), 0.7 * RATE)
    for begin in rng.uniform(0.0, seconds, int(seconds / 240)):
        length, height = rng.uniform(5.0, 25.0), rng.uniform(3.0, 9.0)
        rates[(times >= begin) & (times < begin + length)] = height * RATE
    return _by_the_second(rates, rng)


def _clockwork(seconds: float, seed: int) -> Floats:
    """Jobs that all begin with every fifth minute: eight times as much for forty seconds."""
    rates = np.where(np.arange(int(seconds)) % 300 < 40, 4.0, 0.5) * RATE
    return _by_the_second(rates, np.random.default_rng(seed))


#: Families -> how one of them is drawn from length and seed.
FAMILIES: dict[str, Callable[[float, int], Floats]] = {
    "map2-300": _map2(300.0),
    "map2-2000": _map2(2000.0),
    "selfsimilar": lambda seconds, seed: SelfSimilar(RATE, hurst=0.8).sample(seconds, seed),
    "walk": lambda seconds, seed: RandomWalk(RATE).sample(seconds, seed),
    "steps": _steps,
    "cosine": _cosine,
    "flash-crowd": _flash,
    "on-and-off": _on_and_off,
    "spikes": _spikes,
    "clockwork": _clockwork,
}


def load(name: str, seconds: float | None = None, seed: int = 0) -> Load:
    """A recorded load, or one of a family (an hour unless told)."""
    if name in recorded_traces.TRACES:
        return recorded_traces.load(name, seconds, seed)
    if name in RECORDED:
        made = _market(name)
        return made.cut(seconds) if seconds else made
    if name not in FAMILIES:
        raise unknown("load", name, [*RECORDED, *FAMILIES])
    length = seconds or 3600.0
    return Load(f"{name}, seed {seed}", FAMILIES[name](length, seed), length)


def _market(name: str, faster: float = 6.0) -> Load:
    place = recorded_traces.folder()
    assert place is not None
    every = 10 if name == "quotes" else 3
    seconds = _stamps(place / f"us_equity_{name}_20131010.csv.gz") / 1e3
    opened, closed = 9.5 * 3600, 16 * 3600
    times = np.sort(seconds[(seconds >= opened) & (seconds < closed)])[::every]
    return Load(name, (times - opened) / faster, (closed - opened) / faster)


@lru_cache(maxsize=2)
def _stamps(path: Path) -> Floats:
    with gzip.open(path, "rt") as lines:
        next(lines)
        return np.array([float(line.partition(",")[0]) for line in lines])
