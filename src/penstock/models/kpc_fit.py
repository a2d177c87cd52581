"""Fitting MAPs to measured traffic by Kronecker composition, fast enough to do it online.

The recipe of the KPC-Toolbox (Casale, Zhang and Smirni 2010; MEAD section IV-B), in a form whose every step is a
closed formula inside a compiled search (``simplex``):

1. statistics of the trace (``trace_statistics``);
2. for each number of factors J, variances and time scales of the factors from the autocorrelation;
3. a base law without memory takes up the SCV that the factors leave: hyper-exponential, exponential, or, for
   traffic more regular than Poisson, a mix of Erlangs;
4. the third moment of each factor from the bicovariances and the skewness;
5. a last move of the third moments by a probe queue (the trace itself through an exponential server), since moments
   and correlations alone do not fix the response time at low load;
6. for traffic whose rate changes slowly, levels of the rate as well (``slow_rate``);
7. all candidates are valid MAPs with the exact mean, ranked by their errors; where the rate changes slowly, by the probe
   queue alone, in which the load that is furthest off counts most.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import log

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.models.composition import Composition, renewal
from penstock.models.fit_errors import PRICE_OF_A_PHASE, judged, response_error, worst_response_error
from penstock.models.fitted import FittedMap
from penstock.models.map import MAP
from penstock.models.map2 import fit_map2
from penstock.models.phase_type_fit import fit_ph
from penstock.models.simplex import CORRELATION, THIRD_ORDER, minimise, third_order_error
from penstock.models.slow_rate import slow_rates
from penstock.models.trace_statistics import TraceStatistics, clean_gaps, trace_statistics

Floats = NDArray[np.float64]
_NONE = np.zeros(1)


def fit_kpc(interarrivals: ArrayLike, best: int = 5, max_states: int = 16, seed: int = 0) -> list[FittedMap]:
    """The ``best`` MAPs for these inter-arrival times, best first, each with its errors per statistic.

    Deterministic for a seed. Ties and clocks that step back are handled; constant gaps give the most regular
    process of ``max_states`` phases.

    >>> trace = fit_map2(0.01, dispersion=50.0).sample(20_000, np.random.default_rng(1))
    >>> fits = fit_kpc(trace)
    >>> len(fits), bool(np.isclose(fits[0].mean, trace.mean())), fits[0].errors["scv"] < 0.05
    (5, True, True)
    """
    if best < 1 or max_states < 2:
        raise PenstockError(
            f"A fit returns 1 result or more with 2 states or more, not {best} with {max_states}."
        )
    gaps = clean_gaps(interarrivals)
    stats = trace_statistics(gaps, seed)
    # Gaps may be near-constant and yet wander: what then makes queues is the slow change of the rate, so a fit must have
    # it, even though its single gaps are less regular than those of the trace.
    if stats.scv < 1.0 / max_states and stats.growth.max() < 1.5 / max_states:
        return [_regular(stats, max_states)]
    rng = np.random.default_rng(seed)
    slow = changes_slowly(stats)
    processes = list(_candidates(stats, max_states, rng))
    if slow:
        processes += slow_rates(gaps / stats.mean, stats, max_states)
    fits = [scored(process, stats, slow) for process in processes]
    fits.sort(key=lambda fit: fit.score)
    return _distinct(fits, best)


def changes_slowly(stats: TraceStatistics) -> bool:
    """Whether the rate changes more slowly than single gaps tell."""
    return bool(stats.growth.max() > 2.0 * stats.scv)


def scored(process: MAP, stats: TraceStatistics, slow: bool, notes: tuple[str, ...] = ()) -> FittedMap:
    """The process at the rate of a trace, with its errors and their score.

    Levels of a slowly changing rate are less variable (or less regular) than the gaps, and need not be more: the rate
    makes the queues, so the response alone is the score there.
    """
    fit = judged(process, stats, notes)
    if slow:
        fit.score = worst_response_error(fit, stats) + PRICE_OF_A_PHASE * fit.order
    return fit


def fit_windows(
    interarrivals: ArrayLike, best: int = 1, max_states: int = 16, seed: int = 0
) -> dict[str, list[FittedMap]]:
    """Fits of the whole trace, of its last half and of its last quarter (MEAD section IV-B).

    A change of the traffic shows in the short windows first; a cautious policy takes the worst of them. Windows
    that are too short to fit are left out, the whole trace never is.
    """
    gaps = clean_gaps(interarrivals)
    windows = {"all": gaps, "last half": gaps[gaps.size // 2 :], "last quarter": gaps[-(gaps.size // 4) :]}
    fits = {}
    for name, window in windows.items():
        if name == "all" or (window.size >= 1000 and window.sum() > 0.0):
            fits[name] = fit_kpc(window, best, max_states, seed)
            for fit in fits[name]:
                fit.window = name
    return fits


def _regular(stats: TraceStatistics, max_states: int) -> FittedMap:
    """Gaps more regular than any MAP of this size: the Erlang renewal process."""
    law = fit_ph(stats.mean, 1.0 / max_states)
    process = MAP(law.T, np.outer(law.exit, law.alpha))
    note = f"An SCV of {stats.scv:.3g} takes more than {max_states} phases; the fit has {process.scv:.3g}."
    return scored(process, stats, changes_slowly(stats), (note,))


def _candidates(stats: TraceStatistics, max_states: int, rng: np.random.Generator) -> Iterator[MAP]:
    """Valid MAPs of unit mean, from a renewal process to full compositions."""
    yield renewal((1.0 + stats.scv) / 2.0, max_states)
    decay = 2.0 * stats.covariance[0] / (stats.scv - 1.0) if abs(stats.scv - 1.0) > 0.01 else 0.0
    yield fit_map2(1.0, scv=stats.scv, skewness=stats.skewness, decay=float(np.clip(decay, -0.99, 0.9999)))
    for span in (len(stats.growth) // 2, -1):
        yield fit_map2(1.0, scv=stats.scv, skewness=stats.skewness, dispersion=max(stats.growth[span], 0.1))
    for factors in range(1, int(log(max_states, 2)) + 1):
        found = _correlated(stats, factors, max_states, rng)
        if found is not None:
            for shape in _shapes(stats, found, rng):
                yield shape.process()


def _correlated(
    stats: TraceStatistics, factors: int, max_states: int, rng: np.random.Generator
) -> Composition | None:
    """Steps 2 and 3: variances and time scales, from starts spread over the scales, and the base that is left."""
    base_states = max_states // 2**factors
    room = (1.0 + stats.scv) / (1.0 + 1.0 / base_states)
    # A base that is not regular enough must not push the memory out.
    room = max(room, 1.0 + 1.5 * float(np.mean(stats.covariance[:5])))
    if room <= 1.001:
        return None
    data = (stats.first, stats.last, stats.covariance, stats.weights.ravel(), stats.growth, room)
    level = max(float(np.mean(np.abs(stats.covariance[:5]))), 0.01) / factors
    longest, best, least = log(stats.last[-1]), np.empty(0), np.inf
    for start in range(5):
        scales = (
            np.sort(rng.uniform(0.0, longest, factors)) if start else np.linspace(0.3, 0.9, factors) * longest
        )
        point = np.concatenate([np.full(factors, log(min(level, 0.5 * room))), scales])
        point, _ = minimise(CORRELATION, point, 1.0, 150 * factors, *data)
        point, error = minimise(CORRELATION, point, 0.3, 200 * factors, *data)
        if error < least:
            best, least = point, error
    return _with_base(stats, best[:factors], best[factors:], base_states)


def _with_base(
    stats: TraceStatistics, log_variances: Floats, scales: Floats, base_states: int
) -> Composition | None:
    seen = log_variances > log(1e-4)  # a factor that hardly varies is a waste of states
    variances = np.exp(log_variances[seen])
    memory = np.minimum(np.exp(-np.exp(-scales[seen])), 1.0 - 1e-7)
    if not variances.size:
        return None
    left = (1.0 + stats.scv) / 2.0 / float(np.prod(1.0 + variances))
    if left > 1.001 and base_states >= 2:  # a factor without memory makes the base hyper-exponential
        variances, memory, left = np.append(variances, left - 1.0), np.append(memory, 0.0), 1.0
    return Composition(variances, memory, left, np.zeros(variances.size), base_states)


def _shapes(stats: TraceStatistics, found: Composition, rng: np.random.Generator) -> list[Composition]:
    """Steps 4 and 5: speed-ups from bicovariances and skewness, then the two best starts moved by the probe queue.

    Third moments of slow factors hardly show in the bicovariances, yet they decide how fast a burst is, and with it
    the response at low load.
    """
    base_third = 1.0 if found.left > 0.999 else found.left**2
    third = stats.reduced_third / base_third
    size = found.variances.size
    data = (found.variances, found.memory, stats.pairs.ravel(), stats.third_order, _NONE, third)
    starts = [np.clip(0.5 * log(v) - log(max(1.0 - v**0.5, 0.05)), -4.0, 4.0) for v in found.variances]
    points = [np.array(starts)]
    for centre in (0.0, 2.0, -2.0):
        point = np.clip(centre + 0.5 * rng.standard_normal(size), -4.0, 4.0)
        points.append(minimise(THIRD_ORDER, point, 1.0, 120 * size, *data)[0])

    def error(logits: Floats) -> float:
        hidden, visible = found.matrices(logits)
        return response_error(hidden, visible, 1.0, stats) + 0.3 * float(
            third_order_error(logits, found.variances, found.memory, stats.pairs, stats.third_order, third)
        )

    points.sort(key=error)
    moved = [
        scipy.optimize.fmin(error, p, xtol=0.02, ftol=0.002, maxfun=20 * size, disp=False) for p in points[:2]
    ]
    return [replace(found, logits=np.clip(logits, -6.0, 6.0)) for logits in (*moved, points[0])]


def _distinct(fits: list[FittedMap], best: int) -> list[FittedMap]:
    """The first ``best`` that differ from one another."""
    chosen: list[FittedMap] = []
    for fit in fits:
        key = (fit.scv, fit.dispersion, fit.errors["response"])
        if all(not np.allclose(key, (c.scv, c.dispersion, c.errors["response"]), rtol=1e-3) for c in chosen):
            chosen.append(fit)
        if len(chosen) == best:
            break
    return chosen
