"""Arrival processes, attributes, disorder, traces and burst statistics."""

from typing import TYPE_CHECKING

from penstock.core.deprecation import moved
from penstock.traffic.description import describe
from penstock.traffic.markov import map2, poisson

__all__ = ["poisson", "map2", "describe"]

if not TYPE_CHECKING:
    __getattr__ = moved(
        "penstock.traffic",
        {
            "Shaped": "composition",
            "Superposition": "composition",
            "daily": "shapes",
            "read_trace": "trace",
            "write_trace": "trace",
        },
    )
