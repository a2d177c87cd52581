"""One picture of a comparison: the load, the capacity of each policy, the response against the target."""

from collections.abc import Sequence
from io import BytesIO
from math import isnan
from pathlib import Path

import numpy as np

from penstock.core.errors import PenstockError
from penstock.sim.closed_loop import ClosedLoopResult

#: Colours that stay apart for most eyes and in print.
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#c77c11", "#6d4c9f", "#5c5c5c", "#0f8b8d", "#a34a28", "#8a8d00")


def plot_outcomes(
    outcomes: Sequence[ClosedLoopResult],
    path: Path | BytesIO,
    *,
    title: str,
    target: float = float("nan"),
    label: str = "response",
) -> None:
    """Draw the runs as PNG into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (load, capacity, response) = plt.subplots(
        3, 1, figsize=(10, 8), sharex=True, height_ratios=(1, 1.3, 1.3), layout="constrained"
    )
    series = outcomes[0].series
    load.plot(series.time, series.arrival_rate, color="black", linewidth=0.8)
    load.set(ylabel="tuples/s", title=title)
    load.set_ylim(bottom=0)
    for outcome, colour in zip(outcomes, _cycle(len(outcomes)), strict=True):
        s = outcome.series
        capacity.step(s.time, s.resources, where="post", color=colour, linewidth=1.2, label=outcome.policy)
        response.plot(s.time, s.response, color=colour, linewidth=0.9)
    if not isnan(target):
        response.axhline(target, color="black", linestyle="--", linewidth=1)
        response.annotate("target", (series.time[-1], target), ha="right", va="bottom", fontsize=8)
    known = np.concatenate([o.series.response for o in outcomes])
    if np.any(known[~np.isnan(known)] > 0):
        response.set_yscale("log")
    capacity.set(ylabel="cores in use")
    capacity.set_ylim(0, 1.25 * max(float(np.nanmax(o.series.resources)) for o in outcomes))
    capacity.legend(fontsize=8, ncols=min(4, len(outcomes)), loc="upper left")
    response.set(ylabel=f"{label} (s)", xlabel="time (s)")
    for axes in (load, capacity, response):
        axes.grid(alpha=0.25)
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as error:
        raise PenstockError(f"The plot cannot be written to '{path}' ({error}); name another file.") from None
    finally:
        plt.close(figure)


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
