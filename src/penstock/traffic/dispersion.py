"""Index of dispersion of counts: variance over mean of the number of arrivals per window, and where it levels off.

I(t) = Var N(t) / E N(t); 1 for Poisson at every t. Its limit is the papers' burstiness I (PPQ section 6.1: lengthen the
windows until the value settles). A finite trace gives a reading at a scale, not the limit, so the scale is told.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Floats, Ints

#: Fewer windows than this make a point of the curve too vague to show ...
FEWEST_WINDOWS = 10
#: ... and fewer than this make it too vague to read the limit from.
FEWEST_FOR_LIMIT = 30
#: Growth that still counts as level.
_LEVEL = 0.1


@dataclass(frozen=True)
class DispersionCurve:
    """The index of dispersion at a row of time scales."""

    scales: Floats
    values: Floats
    windows: Ints


@dataclass(frozen=True)
class DispersionLimit:
    """The estimate of the limit, the scale in seconds at which it was read, and whether it holds from there on."""

    value: float
    scale: float
    settled: bool


def window_counts(arrival: Floats, window: float) -> Ints:
    """Arrivals in each whole window from the first arrival on.

    >>> window_counts(np.array([0.0, 0.4, 1.1, 2.0]), 1.0).tolist()
    [2, 1]
    """
    since = arrival - arrival[0]
    whole = int(since[-1] / window)
    return np.bincount((since / window).astype(np.int64), minlength=whole)[:whole]


def scales_for(seconds: float, rate: float, most: int = 40) -> Floats:
    """Time scales 1, 2, 5, 10, ... from the mean gap to the length over the fewest windows."""
    if not seconds > 0.0:
        return np.empty(0)
    low, high = 1.0 / rate, seconds / FEWEST_WINDOWS
    decades = np.arange(np.floor(np.log10(low)), np.floor(np.log10(high)) + 1)
    # 1e-2 * 5 is not 0.05 to the last digit, and these numbers become keys.
    steps = np.array([float(f"{m}e{int(d)}") for d in decades for m in (1, 2, 5)])
    return steps[(steps >= low) & (steps <= high)][-most:]


def dispersion_curve(arrival: Floats, scales: Floats | None = None) -> DispersionCurve:
    """Read the index of dispersion at each scale."""
    seconds = float(arrival[-1] - arrival[0])
    rate = arrival.size / seconds if seconds > 0.0 else 1.0
    scales = scales_for(seconds, rate) if scales is None else scales
    values, windows = [], []
    for scale in scales.tolist():
        counts = window_counts(arrival, scale)
        windows.append(counts.size)
        values.append(float(counts.var() / counts.mean()))
    return DispersionCurve(scales, np.array(values), np.array(windows, dtype=np.int64))


def dispersion_limit(curve: DispersionCurve, above: float = 0.0) -> DispersionLimit | None:
    """The slope of Var N(t) / rate = t I(t) at the smallest scale from which on it stays the same.

    For a process with short memory t I(t) = I t - c beyond that memory, so the slope between two scales reaches the
    limit I long before the curve itself does. It counts as steady if the later slopes are no higher, within 10 %
    and their sampling error (about 1.5 sqrt(2 / windows)). Where the curve rises to the end, its last trustworthy
    value is given, as not settled. Scales below ``above`` are not read: counts there tell of batches, not of the stream.
    """
    kept = (curve.windows >= FEWEST_FOR_LIMIT) & (curve.scales >= above)
    scales, values, windows = curve.scales[kept], curve.values[kept], curve.windows[kept]
    if scales.size == 0:
        return None
    slopes, weights = np.diff(values * scales) / np.diff(scales), windows[1:]
    noise = 1.5 * np.sqrt(2.0 / weights)
    for i in range(slopes.size - 1):
        later = float(np.average(slopes[i + 1 :], weights=weights[i + 1 :]))
        steady = later <= slopes[i] * (1.0 + _LEVEL + 0.5 * noise[i + 1])
        if steady and np.all(slopes[i + 1 :] <= slopes[i] * (1.0 + _LEVEL + 3.0 * noise[i + 1 :])):
            return DispersionLimit(float(slopes[i]), float(scales[i + 1]), settled=True)
    return DispersionLimit(float(values[-1]), float(scales[-1]), settled=False)
