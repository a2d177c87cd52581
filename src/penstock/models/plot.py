"""The picture of a fit: autocorrelation, dispersion and response, measured and modelled (MEAD Fig. 3)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.models.comparison import LoadComparison
from penstock.models.fitted import FittedMap
from penstock.picture import BLUE, GREEN, INK, RED, picture

Floats = NDArray[np.float64]

_MEASURED, _MAP, _OTHER, _THIRD = INK, RED, BLUE, GREEN


def plot_fit(
    path: Path, gaps: Floats, fits: Sequence[FittedMap], rows: Sequence[LoadComparison], title: str
) -> None:
    """Draw four panels into a PNG (or whatever the ending of the path says)."""
    with picture(path, 2, 2, size=(11.0, 7.2), title=title) as axes:
        _autocorrelation(axes[0, 0], gaps, fits[0])
        _dispersion(axes[0, 1], gaps, fits[0])
        _response(axes[1, 0], rows, "mean")
        _response(axes[1, 1], rows, "p95")


def _autocorrelation(axis: Any, gaps: Floats, fit: FittedMap) -> None:
    deviation = gaps / gaps.mean() - 1.0
    lags = np.unique(np.geomspace(1, max(gaps.size // 10, 2), 60).astype(np.int64))
    variance = float(np.mean(deviation**2))
    measured = [float(np.mean(deviation[:-k] * deviation[k:])) / max(variance, 1e-300) for k in lags.tolist()]
    axis.semilogx(lags, measured, ".", color=_MEASURED, label="trace")
    axis.semilogx(lags, fit.autocorrelation(lags), color=_MAP, label=f"MAP({fit.order})")
    axis.set(xlabel="lag (arrivals)", ylabel="autocorrelation of the gaps")


def _dispersion(axis: Any, gaps: Floats, fit: FittedMap) -> None:
    times = np.cumsum(gaps)
    scales = np.geomspace(10.0 * gaps.mean(), times[-1] / 20.0, 24)
    axis.loglog(
        scales, [count_dispersion(times, s) for s in scales.tolist()], ".", color=_MEASURED, label="trace"
    )
    axis.loglog(scales, fit.dispersion_at(scales), color=_MAP, label=f"MAP({fit.order})")
    axis.axhline(1.0, color=_THIRD, linewidth=1.0, label="Poisson")
    axis.set(xlabel="time scale (s)", ylabel="index of dispersion of counts")


def count_dispersion(times: Floats, scale: float) -> float:
    """Variance over mean of the arrivals per window of ``scale`` seconds."""
    counts = np.bincount((times / scale).astype(np.int64))[:-1]
    return float(counts.var() / counts.mean()) if counts.size > 1 and counts.any() else 1.0


def _response(axis: Any, rows: Sequence[LoadComparison], which: str) -> None:
    loads = [row.utilisation for row in rows]
    axis.semilogy(
        loads,
        [getattr(row, f"simulated_{which}") for row in rows],
        "o",
        color=_MEASURED,
        label="trace, simulated",
    )
    axis.semilogy(loads, [getattr(row, f"map_{which}")[0] for row in rows], color=_MAP, label="MAP/PH/1")
    axis.semilogy(loads, [getattr(row, f"mg1_{which}") for row in rows], color=_OTHER, label="M/G/1")
    if which == "mean":
        axis.semilogy(loads, [row.kingman_mean for row in rows], color=_THIRD, label="Kingman")
    axis.set(
        xlabel="utilisation",
        ylabel=("mean" if which == "mean" else "95th percentile of the") + " response (s)",
    )
