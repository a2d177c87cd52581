"""Plots of the query benchmark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.picture import INK, picture


def plot_rates(
    hand_rates: Sequence[int],
    hand: Sequence[Mapping[str, Any]],
    our_rates: Sequence[int],
    ours: Sequence[Mapping[str, Any]],
    path: Path,
) -> None:
    """Work for a second of stream against the stream's rate; below the line the stream is sustained."""
    with picture(path, size=(7.5, 4.5)) as axis:
        axis.loglog(hand_rates, [d["load"] for d in hand], "o-", label="window() + collect_list + paretoset")
        axis.loglog(our_rates, [d["load"] for d in ours], "s-", label="Penstock")
        axis.axhline(1.0, color=INK, linestyle=":")
        axis.set_xlabel("tuples a second in the stream")
        axis.set_ylabel("seconds of work for a second of stream")
        axis.set_title("Sustained below 1 (8 attributes, windows of 1 s by 0.2 s, two cores)")


def plot_growth(
    at: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    label: str,
    path: Path,
    what: str = "seconds of work for a second of stream",
    log: bool = False,
) -> None:
    """A cost against something that grows."""
    with picture(path, size=(7.5, 4.5)) as axis:
        for name, values in lines.items():
            axis.plot(at, values, "o-", label=name)
        axis.set(xlabel=label, ylabel=what, xscale="log" if log else "linear", yscale="log")
