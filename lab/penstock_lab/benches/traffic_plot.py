"""Streams beside each other at two time scales a factor of ten apart (as Elastic-PPQ figure 3 does)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.picture import BLUE, RED, picture
from penstock.traffic.dispersion import window_counts


def plot_scales(path: Path, streams: Mapping[str, Floats]) -> None:
    """Draw the rate of each stream in windows of 100 ms, and a tenth of it in windows of 10 ms."""
    with picture(path, len(streams), 2, size=(11.0, 2.3 * len(streams) + 0.4), squeeze=False) as axes:
        for (wide, near), (name, arrival) in zip(axes, streams.items(), strict=True):
            seconds = float(arrival[-1] - arrival[0])
            begin = 0.45 * seconds
            _counted(wide, name, arrival, 0.1, (0.0, seconds), BLUE)
            _counted(near, name, arrival, 0.01, (begin, begin + seconds / 10.0), RED)
            wide.axvspan(begin, begin + seconds / 10.0, color=RED, alpha=0.15, linewidth=0)
        for axis in axes[-1]:
            axis.set_xlabel("seconds")


def _counted(
    axis: Any, name: str, arrival: Floats, step: float, shown: tuple[float, float], colour: str
) -> None:
    first, last = shown
    since = arrival - arrival[0] - first
    counts = window_counts(since[(since >= 0.0) & (since < last - first)], step)
    edges = first + np.arange(counts.size + 1) * step
    axis.stairs(counts / step, edges, color=colour, linewidth=0.8)
    axis.stairs(counts / step, edges, color=colour, alpha=0.18, fill=True)
    axis.set(xlim=shown, ylim=(0, None), ylabel="arrivals / s", title=f"{name}, per {1e3 * step:g} ms")
    axis.yaxis.set_major_formatter("{x:,.0f}")
