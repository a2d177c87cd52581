"""Who gets how much: workers for stages under one limit, pieces of work for workers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Floats, Ints


def fit(wanted: Sequence[int], limit: int) -> tuple[int, ...]:
    """Scale wanted numbers of workers down in proportion until they fit the limit; nobody falls below one.

    The parts left over by rounding down go to the largest remainders, earlier stages first.

    >>> fit([6, 6], 8)
    (4, 4)
    >>> fit([10, 1], 8)
    (7, 1)
    >>> fit([2, 3], 8)
    (2, 3)
    """
    total = sum(wanted)
    if total <= limit:
        return tuple(wanted)
    exact = [w * limit / total for w in wanted]
    given = [max(min(1, w), int(e)) for w, e in zip(wanted, exact, strict=True)]
    order = sorted(range(len(wanted)), key=lambda i: (int(exact[i]) - exact[i], i))
    for i in order:
        if sum(given) < limit and given[i] < wanted[i] and given[i] <= exact[i]:
            given[i] += 1
    while (
        sum(given) > limit and max(given) > 1
    ):  # the ones that were lifted to one are paid for by the largest
        given[given.index(max(given))] -= 1
    return tuple(given)


def deal(weights: ArrayLike, loads: Floats, *, heaviest_first: bool = True) -> Ints:
    """The place of each weight: one after the other to the least loaded place. ``loads`` grows by what each place gets.

    >>> deal([3.0, 1.0, 2.0], np.zeros(2)).tolist(), deal([1.0, 1.0, 9.0], np.zeros(2), heaviest_first=False).tolist()
    ([0, 1, 1], [0, 1, 0])
    """
    weight = np.asarray(weights, dtype=float)
    places = np.empty(len(weight), dtype=np.int64)
    for at in np.argsort(-weight, kind="stable") if heaviest_first else range(len(weight)):
        places[at] = loads.argmin()
        loads[places[at]] += weight[at]
    return places
