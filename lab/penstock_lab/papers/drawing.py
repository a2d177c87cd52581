"""Plots of the reproduced figures, all alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#c77c11", "#6d4c9f", "#5c5c5c", "#0f8b8d")


def draw(
    path: Path,
    fill: Callable[[Any], None],
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (9, 4),
) -> Path:
    """Make a figure, let ``fill`` draw into its axes (one, a row or a grid of them) and save it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=True)
    fill(axes)
    flat = axes.ravel() if hasattr(axes, "ravel") else [axes]
    for one in flat:
        one.grid(alpha=0.25)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path
