"""The picture of a trace: rate over time at two scales, autocorrelation, dispersion curve."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Floats
from penstock.picture import BLUE, INK, RED, picture
from penstock.traffic.description import Description
from penstock.traffic.dispersion import window_counts


def plot_trace(path: Path, arrival: Floats, found: Description, title: str = "") -> None:
    """Draw four panels into a PNG (or whatever the ending of the path says)."""
    with picture(path, 2, 2, size=(11.0, 7.2), title=_headline(found, title)) as axes:
        _rates(axes[0, 0], axes[0, 1], arrival, found)
        _correlogram(axes[1, 0], found)
        _dispersion(axes[1, 1], found)


def _headline(found: Description, title: str) -> str:
    parts = [f"{found.count:,} arrivals in {found.seconds:,.4g} s", f"{found.rate:,.5g}/s"]
    if found.limit:
        known = f"I = {_figure(found.limit.value)}"
        parts.append(known if found.limit.settled else f"I not read, {_figure(found.limit.value)} and rising")
    parts.append(found.verdict if found.verdict == "no bursts" else f"{found.verdict} bursts")
    return "   ".join(([title] if title else []) + [" · ".join(parts)])


def _rates(wide: Any, near: Any, arrival: Floats, found: Description) -> None:
    """The whole trace in some 300 windows, and its busiest tenth ten times as fine."""
    coarse = _round_step(found.seconds / 300.0)
    counts = window_counts(arrival, coarse)
    edges = np.arange(counts.size + 1) * coarse
    _steps(wide, edges, counts / coarse, f"Rate per {_seconds(coarse)}", found)
    width = 30  # windows, a tenth of them or less
    sums = np.convolve(counts, np.ones(width), mode="valid") if counts.size >= width else counts.astype(float)
    begin = int(np.argmax(sums)) * coarse
    end = min(begin + width * coarse, found.seconds)
    wide.axvspan(begin, end, color=RED, alpha=0.12, linewidth=0)
    since = arrival - arrival[0]
    inside = since[(since >= begin) & (since < end)]
    fine = coarse / 10.0
    detail = np.bincount(((inside - begin) / fine).astype(np.int64), minlength=round((end - begin) / fine))
    at = begin + np.arange(detail.size + 1) * fine
    _steps(near, at, detail / fine, f"Busiest tenth, rate per {_seconds(fine)}", found, RED)


def _steps(
    axis: Any,
    edges: NDArray[np.floating[Any]],
    rate: Floats,
    title: str,
    found: Description,
    colour: str = BLUE,
) -> None:
    axis.stairs(rate, edges, color=colour, linewidth=0.9, fill=False)
    axis.stairs(rate, edges, color=colour, alpha=0.18, fill=True)
    axis.axhline(found.rate, color=INK, linewidth=0.9, linestyle="--")
    axis.annotate(
        "mean",
        (1.0, found.rate),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=8,
    )
    axis.set(title=title, xlabel="seconds", ylabel="arrivals / s", xlim=(edges[0], edges[-1]), ylim=(0, None))
    axis.yaxis.set_major_formatter("{x:,.0f}")


def _correlogram(axis: Any, found: Description) -> None:
    values = found.correlogram
    lags = np.unique(np.geomspace(1, max(values.size, 2), 150).astype(int))
    lags = lags[lags <= values.size]
    bound = 1.96 / np.sqrt(max(found.count - 1, 1))
    axis.axhspan(-bound, bound, color=INK, alpha=0.3, linewidth=0, label="no correlation, 95 %")
    axis.plot(lags, values[lags - 1], color=BLUE, linewidth=1.2, marker=".", markersize=3)
    axis.axhline(0.0, color=INK, linewidth=0.6)
    axis.set(xscale="log", title="Autocorrelation of inter-arrival times", xlabel="lag (arrivals)")


def _dispersion(axis: Any, found: Description) -> None:
    curve = found.curve
    axis.set_title("Index of dispersion of counts")
    if not np.any(curve.values > 0.0):  # nothing to show on a logarithmic scale
        axis.text(
            0.5, 0.5, "no variance, or too short to tell", ha="center", color=INK, transform=axis.transAxes
        )
        return
    low = curve.values * np.maximum(1.0 - 1.96 * np.sqrt(2.0 / curve.windows), 0.05)
    high = curve.values * (1.0 + 1.96 * np.sqrt(2.0 / curve.windows))
    axis.fill_between(curve.scales, low, high, color=BLUE, alpha=0.18, linewidth=0)
    axis.plot(
        curve.scales, curve.values, color=BLUE, marker="o", markersize=3.5, linewidth=1.3, label="this trace"
    )
    axis.axhline(1.0, color=INK, linestyle="--", linewidth=1.0, label="Poisson")
    if found.batching:
        axis.axvspan(
            curve.scales[0] / 2, found.batching.blur, color=INK, alpha=0.18, linewidth=0,
            label=f"batches every {_seconds(found.batching.period)}: not read here",
        )  # fmt: skip
    if found.limit and found.limit.settled:
        axis.hlines(
            found.limit.value, found.limit.scale, curve.scales[-1], color=RED, linewidth=1.6,
            label=f"limit {_figure(found.limit.value)}, from {_seconds(found.limit.scale)} on",
        )  # fmt: skip
    elif found.limit:
        axis.plot(
            [], [], linestyle="none", label=f"no limit read: still rising at {_seconds(found.limit.scale)}"
        )
    hurst = "" if found.hurst is None else f" (Hurst {found.hurst:.2f})"
    axis.set(
        xscale="log", yscale="log", title=f"Index of dispersion of counts{hurst}", xlabel="window (seconds)"
    )
    axis.set_xlim(curve.scales[0] / 1.5, curve.scales[-1] * 1.5)


def _round_step(value: float) -> float:
    """The nearest of 1, 2, 5, 10, ... below."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(m for m in (1.0, 2.0, 5.0) if m * power <= value * (1.0 + 1e-9)))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"
