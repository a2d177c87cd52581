"""What the authors of Elastic-PPQ published with their logs: tuples of every second of their streams."""

import csv
import gzip
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock_lab import recorded_traces

RATES = "elastic_ppq_rates.csv.gz"


def recorded_file(name: str) -> Path:
    """A file of the folder of recorded data."""
    folder = recorded_traces.folder()
    if folder is None or not (folder / name).exists():
        raise PenstockError(
            f"The file {name} is not here; name the folder that has it with the environment variable PENSTOCK_DATA."
        )
    return folder / name


def is_recorded(stream: str) -> bool:
    """Whether the tuples of this stream are at hand."""
    folder = recorded_traces.folder()
    return folder is not None and (folder / RATES).exists() and stream in recorded_rates()


@lru_cache
def recorded_rates() -> dict[str, Floats]:
    """Tuples of every second, by stream."""
    found: dict[str, list[float]] = {}
    with gzip.open(recorded_file(RATES), "rt") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["stream"], []).append(float(row["tuples"]))
    return {name: np.array(counts) for name, counts in found.items()}


def recorded_events(stream: str, seconds: float, seed: int) -> Floats:
    """Event times with as many tuples in every second as were recorded, anywhere within it."""
    counts = recorded_rates()[stream][: int(seconds)].astype(np.int64)
    times = np.repeat(np.arange(len(counts)), counts) + np.random.default_rng(seed).random(int(counts.sum()))
    return np.sort(times)
