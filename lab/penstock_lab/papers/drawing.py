"""Plots of the reproduced figures, all alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.picture import picture


def draw(
    path: Path,
    fill: Callable[[Any], None],
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (9, 4),
) -> Path:
    """Make a picture, let ``fill`` draw into its axes (one, a row or a grid of them); gives the path back."""
    with picture(path, rows, columns, size=size) as axes:
        fill(axes)
    return path
