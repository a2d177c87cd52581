"""Describe a trace: rate, variability, burstiness per time scale, memory, lateness, and a verdict in words."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.traffic.batching import Batching, batching
from penstock.traffic.dispersion import (
    DispersionCurve,
    DispersionLimit,
    dispersion_curve,
    dispersion_limit,
    window_counts,
)
from penstock.traffic.hurst import hurst
from penstock.traffic.lateness import Lateness, lateness
from penstock.traffic.trace import Trace

#: Seconds that a described trace may last: three years, which is a window of counts each.
MOST_WINDOWS = 1e8


LAGS = 100
#: The papers' words (PPQ table 2 and section 4.3.3): I = 207 is no bursts, 1000 low, 1507 to 2500 moderate or medium,
#: from 2853 on severe.
MODERATE_FROM = 500.0
SEVERE_FROM = 2700.0


@dataclass(frozen=True)
class Description:
    """What :func:`describe` found; figures that the trace is too short for are None."""

    count: int
    seconds: float
    rate: float
    scv: float | None
    correlogram: Floats
    curve: DispersionCurve
    limit: DispersionLimit | None
    hurst: float | None
    peak_to_mean: float | None
    peak_scale: float | None
    lateness: Lateness | None
    delay_mean: float | None
    #: Where many arrivals share their times.
    batching: Batching | None = None

    @property
    def autocorrelation(self) -> list[float]:
        """Autocorrelation of the inter-arrival times from lag 1 to 100."""
        return [float(value) for value in self.correlogram[:LAGS]]

    @cached_property
    def dispersion(self) -> dict[float, float]:
        """Time scale in seconds to index of dispersion of counts."""
        return dict(zip(self.curve.scales.tolist(), self.curve.values.tolist(), strict=True))

    @property
    def late_share(self) -> float:
        """Share of tuples whose event time is behind one seen before; 0 without event times."""
        return self.lateness.share if self.lateness else 0.0

    @property
    def verdict(self) -> str:
        """``no bursts``, ``moderate`` or ``severe``, as the papers use the words."""
        if self.limit is None:
            return "unknown"
        if self.limit.value < MODERATE_FROM:
            return "no bursts"
        return "moderate" if self.limit.value < SEVERE_FROM else "severe"

    def as_json(self) -> dict[str, Any]:
        """Plain values under the names of the command's ``--json``."""
        return {
            "count": self.count,
            "seconds": self.seconds,
            "rate": self.rate,
            "scv": self.scv,
            "autocorrelation": self.autocorrelation,
            "dispersion": {f"{scale:g}": value for scale, value in self.dispersion.items()},
            "dispersion_windows": {
                f"{s:g}": n
                for s, n in zip(self.curve.scales.tolist(), self.curve.windows.tolist(), strict=True)
            },
            "dispersion_limit": vars(self.limit) if self.limit else None,
            "hurst": self.hurst,
            "peak_to_mean": self.peak_to_mean,
            "peak_scale": self.peak_scale,
            "late_share": self.late_share,
            "lateness": vars(self.lateness) if self.lateness else None,
            "delay_mean": self.delay_mean,
            "batching": vars(self.batching) if self.batching else None,
            "verdict": self.verdict,
        }


def describe(trace: Trace | Floats) -> Description:
    """Statistics of a trace, or of an array of arrival times in seconds.

    >>> from penstock.traffic import poisson
    >>> found = describe(poisson(1000.0).sample(60.0, seed=1))
    >>> found.verdict, round(found.scv, 1), round(found.dispersion[1.0])
    ('no bursts', 1.0, 1)
    """
    trace = trace if isinstance(trace, Trace) else Trace(np.asarray(trace, dtype=np.float64))
    arrival, seconds = trace.arrival, float(trace.arrival[-1] - trace.arrival[0])
    if len(trace) < 3 or not seconds > 0.0:
        raise PenstockError("A description needs at least three arrivals, and not all at the same time.")
    if seconds > MOST_WINDOWS:
        raise PenstockError(
            f"The trace lasts {seconds:g} seconds, longer than can be counted by the second; check its unit."
        )
    gaps = np.diff(arrival)
    curve, batched = dispersion_curve(arrival), batching(arrival)
    peak, scale = _peak(arrival, seconds)
    late = None if trace.event_time is None else lateness(trace.event_time)
    return Description(
        count=len(trace),
        seconds=seconds,
        rate=gaps.size / seconds,
        scv=float(gaps.var() / gaps.mean() ** 2),
        correlogram=autocorrelation(gaps),
        curve=curve,
        limit=dispersion_limit(curve, batched.blur if batched else 0.0),
        hurst=hurst(arrival),
        peak_to_mean=peak,
        peak_scale=scale,
        lateness=late,
        batching=batched,
        delay_mean=None if trace.event_time is None else float(np.mean(arrival - trace.event_time)),
    )


def autocorrelation(values: Floats, most: int = 10_000) -> Floats:
    """Autocorrelation from lag 1 to a tenth of the length, by the Fourier transform."""
    lags = min(most, max(values.size // 10, min(values.size - 1, 10)))
    centred = values - values.mean()
    power = float(centred @ centred)
    if power <= 0.0:
        return np.zeros(lags)
    size = next_fast_len(values.size + lags, real=True)
    spectrum = rfft(centred, size)
    return np.asarray(irfft(spectrum.real**2 + spectrum.imag**2, size)[1 : lags + 1] / power)


def _peak(arrival: Floats, seconds: float) -> tuple[float | None, float | None]:
    """Highest count over the mean count per second; per shorter time where the trace is short."""
    scale = 1.0
    while seconds / scale < 10.0:
        scale /= 10.0
    counts = window_counts(arrival, scale)
    mean = float(counts.mean())
    return (float(counts.max()) / mean, scale) if mean > 0.0 else (None, None)
