"""One picture of a comparison: the load, the capacity of each policy, the response against the target."""

from collections.abc import Sequence
from io import BytesIO
from math import isnan
from pathlib import Path

import numpy as np

from penstock.core.errors import PenstockError
from penstock.picture import COLOURS, INK, picture
from penstock.sim.closed_loop import ClosedLoopResult

#: What a picture can be written as; without an ending it is PNG.
ENDINGS = ("", ".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps", ".ps")


def check_ending(path: Path) -> None:
    """Refuse a name that is no picture's, before anything runs.

    >>> check_ending(Path("compare.png"))
    """
    if path.suffix.lower() not in ENDINGS:
        raise PenstockError(f"'{path}' is no picture by its name; end its name in .png, .svg or .pdf.")


def plot_outcomes(
    outcomes: Sequence[ClosedLoopResult],
    path: Path | BytesIO,
    *,
    title: str,
    target: float = float("nan"),
    label: str = "response",
) -> None:
    """Draw the runs as PNG into a file."""
    with picture(path, 3, 1, size=(10, 8), sharex=True, height_ratios=(1, 1.3, 1.3)) as axes:
        load, capacity, response = axes
        series = outcomes[0].series
        load.plot(series.time, series.arrival_rate, color=INK, linewidth=0.8)
        load.set(ylabel="tuples/s", title=title, ylim=(0, None))
        for at, outcome in enumerate(outcomes):
            s, colour = outcome.series, COLOURS[at % len(COLOURS)]
            dash = "-" if at < len(COLOURS) else "--"
            capacity.step(s.time, s.resources, dash, where="post", color=colour, label=outcome.policy)
            response.plot(s.time, s.response, dash, color=colour, linewidth=0.9)
        if not isnan(target):
            response.axhline(target, color=INK, linestyle=":", linewidth=1.2)
            response.annotate("target", (series.time[-1], target), ha="right", va="bottom", fontsize=8)
        known = np.concatenate([o.series.response for o in outcomes])
        if np.any(known[~np.isnan(known)] > 0):
            response.set_yscale("log")
        capacity.set(ylabel="cores in use", ylim=(0, None))
        response.set(ylabel=f"{label} (s)", xlabel="time (s)")
