"""Nelder and Mead's simplex search, compiled with the two objectives of the composition fit.

The objectives are written out here because compiled code that is cached on disk cannot take functions as
arguments. They see gaps as an exponential of mean 1 times J independent two-state Markov factors of mean 1
(that is what the Kronecker composition of hyper-exponential MAP(2)s is): factor j has variance V_j, third central
moment T_j and forgets by gamma_j = exp(-1 / tau_j) from one arrival to the next. Then

    E[X_0 X_k]         = prod_j (1 + V_j gamma_j^k),
    E[X_0 X_u X_{u+v}] = prod_j (1 + V_j (gamma_j^u + gamma_j^v + gamma_j^{u+v}) + T_j gamma_j^{u+v}),
    E[X^2] / 2         = prod_j (1 + V_j),
    E[X^3] / 6         = prod_j (1 + 3 V_j + T_j).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.jit import jit

Floats = NDArray[np.float64]

CORRELATION, THIRD_ORDER = 0, 1


@jit
def correlation_error(
    point: Floats,
    first: Floats,
    last: Floats,
    covariance: Floats,
    weights: Floats,
    growth: Floats,
    room: float,
) -> float:  # pragma: no cover - compiled
    """Distance of the covariances and of the index of dispersion for intervals; ``point`` holds log V_j, log tau_j.

    ``room`` is what prod (1 + V_j) may at most be, so that a base law with the remaining variability exists.
    """
    factors = point.size // 2
    values = np.empty(first.size)
    error, norm = 0.0, 0.0
    for b in range(first.size):
        middle = np.sqrt(first[b] * last[b])
        values[b] = 0.0
        for lag, weight in ((first[b], 1.0), (middle, 4.0), (last[b], 1.0)):
            product = 1.0
            for j in range(factors):
                product *= 1.0 + np.exp(point[j] - lag * np.exp(-point[factors + j]))
            values[b] += weight * (product - 1.0) / 6.0
        error += abs(values[b] - covariance[b])
        norm += covariance[b] ** 2
    error /= np.sqrt(norm * first.size) + 1e-300
    sums = weights @ (values - covariance)
    for i in range(growth.size):
        error += abs(np.log(max(growth[i] + 2.0 * sums[i], 1e-3) / max(growth[i], 1e-3))) / growth.size
    used, penalty = 0.0, 0.0
    for j in range(factors):
        used += np.log1p(np.exp(point[j]))
        penalty += max(point[factors + j] - np.log(4.0 * last[-1]), 0.0) + max(-2.0 - point[factors + j], 0.0)
    return float(error + 10.0 * max(used - np.log(room), 0.0) + penalty)


@jit
def third_order_error(
    point: Floats, variances: Floats, memory: Floats, pairs: Floats, third_order: Floats, reduced_third: float
) -> float:  # pragma: no cover - compiled
    """Distance of the bicovariances and of the third moment; ``point`` holds the logit of each factor's speed-up.

    A factor is 1 - d in its fast state and 1 + V/d in its slow one, so T = V (V/d - d), 0 < d < 1.
    """
    factors = variances.size
    error, norm, moment, penalty = 0.0, 0.0, 1.0, 0.0
    for i in range(pairs.shape[0]):
        product = 1.0
        for j in range(factors):
            d = 1.0 / (1.0 + np.exp(-point[j]))
            third = variances[j] * (variances[j] / d - d)
            a, b = memory[j] ** pairs[i, 0], memory[j] ** pairs[i, 1]
            product *= 1.0 + variances[j] * (a + b + a * b) + third * a * b
        error += abs(product - third_order[i])
        norm += (third_order[i] - 1.0) ** 2
    for j in range(factors):
        d = 1.0 / (1.0 + np.exp(-point[j]))
        moment *= 1.0 + 3.0 * variances[j] + variances[j] * (variances[j] / d - d)
        penalty += 0.01 * max(abs(point[j]) - 4.0, 0.0) ** 2
    misfit = error / (np.sqrt(norm * pairs.shape[0]) + 1e-300)
    return float(misfit + abs(np.log(moment / reduced_third)) + penalty)


@jit
def _evaluate(
    kind: int, point: Floats, a: Floats, b: Floats, c: Floats, d: Floats, e: Floats, f: float
) -> float:  # pragma: no cover - compiled
    if kind == CORRELATION:
        return correlation_error(point, a, b, c, d.reshape(-1, a.size), e, f)
    return third_order_error(point, a, b, c.reshape(-1, 2), d, f)


@jit
def minimise(
    kind: int,
    start: Floats,
    step: float,
    evaluations: int,
    a: Floats,
    b: Floats,
    c: Floats,
    d: Floats,
    e: Floats,
    f: float,
) -> tuple[Floats, float]:  # pragma: no cover - compiled
    """The best point found from ``start`` and its error; the arguments from ``a`` on go to the objective."""
    n = start.size
    simplex, values = np.empty((n + 1, n)), np.empty(n + 1)
    for i in range(n + 1):
        simplex[i] = start
        if i > 0:
            simplex[i, i - 1] += step
        values[i] = _evaluate(kind, simplex[i], a, b, c, d, e, f)
    used = n + 1
    while used < evaluations:
        order = np.argsort(values)
        simplex, values = simplex[order], values[order]
        if values[n] - values[0] <= 1e-9 * abs(values[0]):
            break
        centre = np.zeros(n)
        for i in range(n):
            centre += simplex[i] / n
        trial = 2.0 * centre - simplex[n]
        value = _evaluate(kind, trial, a, b, c, d, e, f)
        used += 1
        if value < values[0]:
            further = 3.0 * centre - 2.0 * simplex[n]
            beyond = _evaluate(kind, further, a, b, c, d, e, f)
            used += 1
            if beyond < value:
                trial, value = further, beyond
        elif value >= values[n - 1]:
            inside = 0.5 * (centre + (trial if value < values[n] else simplex[n]))
            trial, value = inside, _evaluate(kind, inside, a, b, c, d, e, f)
            used += 1
        if value < values[n]:
            simplex[n], values[n] = trial, value
            continue
        for i in range(1, n + 1):
            simplex[i] = 0.5 * (simplex[i] + simplex[0])
            values[i] = _evaluate(kind, simplex[i], a, b, c, d, e, f)
        used += n
    best = int(np.argmin(values))
    return simplex[best], values[best]
