"""Hurst parameter of a stream, read off how count differences grow with the time scale.

With C the counts in windows of length s, D_s = E[(C_2k+1 - C_2k)^2] / (2 E[C]) is the dispersion of the Haar wavelet; it
grows like s^(2H-1), and slow trends do not enter it as they do the plain variance. The slope of log D_s over log s
is fitted by weighted least squares over octaves of s (Abry and Veitch 1998), each octave weighted by its number of
differences, up to a cap: exact scaling is never met in practice, and the finest octaves would decide alone.
"""

import numpy as np

from penstock.core.arrays import Floats
from penstock.traffic.dispersion import window_counts

#: Windows start at so many mean gaps: below, every stream looks like Poisson.
_FIRST_GAPS = 64.0
_FEWEST_OCTAVES = 4
_FEWEST_DIFFERENCES = 8
_WEIGHT_CAP = 256.0


def hurst(arrival: Floats) -> float | None:
    """Estimate H, between 0 and 1; None for a trace too short to tell.

    >>> from penstock.traffic import poisson
    >>> abs(hurst(poisson(10_000.0).sample(30.0, seed=1)) - 0.5) < 0.05
    True
    """
    octaves = _octaves(arrival)
    if octaves is None:
        return None
    energy, weight = octaves
    j = np.arange(energy.size, dtype=np.float64)
    # The mean logarithm of a mean of n squares is below the logarithm of its mean by about 1/n.
    y = np.log2(energy) + 1.0 / (weight * np.log(2.0))
    weight = np.minimum(weight, _WEIGHT_CAP)
    centred = j - np.average(j, weights=weight)
    slope = float((weight * centred * y).sum() / (weight * centred**2).sum())
    return min(max((slope + 1.0) / 2.0, 0.0), 1.0)


def _octaves(arrival: Floats) -> tuple[Floats, Floats] | None:
    """D_s and its number of differences for doubling s; finer first windows for a short trace."""
    seconds = float(arrival[-1] - arrival[0])
    need = 2 * _FEWEST_DIFFERENCES * 2 ** (_FEWEST_OCTAVES - 1)
    gaps = min(_FIRST_GAPS, arrival.size / need)
    if not seconds > 0.0 or gaps < 1.0:
        return None
    counts = window_counts(arrival, gaps * seconds / arrival.size).astype(np.float64)
    energy, weight = [], []
    while counts.size >= 2 * _FEWEST_DIFFERENCES:
        even = counts.size // 2 * 2
        left, right = counts[0:even:2], counts[1:even:2]
        energy.append(float(np.mean((right - left) ** 2) / (2.0 * counts.mean())))
        weight.append(left.size)
        counts = left + right
    if len(energy) < 3 or min(energy) <= 0.0:
        return None
    return np.array(energy), np.array(weight, dtype=np.float64)
