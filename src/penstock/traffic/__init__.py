"""Arrival processes, attributes, disorder, traces and burst statistics."""

from penstock.traffic.composition import Shaped, Superposition
from penstock.traffic.description import describe
from penstock.traffic.markov import map2, poisson
from penstock.traffic.shapes import daily
from penstock.traffic.trace import read_trace as read_trace
from penstock.traffic.trace import write_trace as write_trace

__all__ = [
    "poisson", "map2", "Shaped", "Superposition", "daily",
    "describe",
]  # fmt: skip
