"""Arrival processes, attributes, disorder, traces and burst statistics."""

from penstock.traffic.attributes import Attributes, correlation_of
from penstock.traffic.composition import Shaped, Superposition
from penstock.traffic.description import Description, describe
from penstock.traffic.disorder import BurstyDelay, DelayModel, HeavyDelay, UniformDelay, disorder
from penstock.traffic.keys import Keys, zipf
from penstock.traffic.markov import MapArrivals, map2, poisson
from penstock.traffic.process import ArrivalProcess, ArrivalRun
from penstock.traffic.replay import Replay
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import Shape, daily, flash_crowd, ramp, steps
from penstock.traffic.stream import TupleStream
from penstock.traffic.trace import Trace, read_trace, write_trace
from penstock.traffic.walk import RandomWalk

__all__ = [
    # arrival processes
    "ArrivalProcess",
    "ArrivalRun",
    "MapArrivals",
    "poisson",
    "map2",
    "SelfSimilar",
    "RandomWalk",
    "Replay",
    "Shaped",
    "Superposition",
    # rate shapes
    "Shape",
    "steps",
    "ramp",
    "daily",
    "flash_crowd",
    # tuples
    "Attributes",
    "correlation_of",
    "Keys",
    "zipf",
    "DelayModel",
    "UniformDelay",
    "HeavyDelay",
    "BurstyDelay",
    "disorder",
    "TupleStream",
    # traces and their statistics
    "Trace",
    "read_trace",
    "write_trace",
    "Description",
    "describe",
]
