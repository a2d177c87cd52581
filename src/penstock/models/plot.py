"""The picture of a fit: autocorrelation, dispersion and response, measured and modelled (MEAD Fig. 3)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.models.comparison import LoadComparison
from penstock.models.fitted import FittedMap

Floats = NDArray[np.float64]

_INK, _MEASURED, _MAP, _OTHER, _THIRD = "#22303c", "#22303c", "#c8503c", "#1f6fa8", "#8a97a3"


def plot_fit(
    path: Path, gaps: Floats, fits: Sequence[FittedMap], rows: Sequence[LoadComparison], title: str
) -> None:
    """Draw four panels into a PNG (or whatever the ending of the path says)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    _autocorrelation(axes[0, 0], gaps, fits[0])
    _dispersion(axes[0, 1], gaps, fits[0])
    _response(axes[1, 0], rows, "mean")
    _response(axes[1, 1], rows, "p95")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=_INK, labelsize=9)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.legend(frameon=False, fontsize=9)
    figure.suptitle(title, color=_INK, fontsize=12, x=0.012, ha="left")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PenstockError(
            f"Cannot write the plot '{path}' ({reason}); name another place, ending in .png."
        ) from None


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
