"""Arrival processes fitted to inter-arrival times, for the policy :class:`Mead`: by window, kept, and shared."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from typing import Any

from penstock.models import Poisson, fit_kpc, fit_map2
from penstock.models.kept_fit import KeptFit

#: Of gaps, how many fits, most states.
Fit = Callable[[Any, int, int], Sequence[Any]]

#: A source, and which of its windows: 0 the whole buffer, 1 its last half, 2 its last quarter.
Window = tuple[str, int]

_MOST_SHARED = 2048
_SHARED: OrderedDict[tuple[bytes, int, int], Sequence[Any]] = OrderedDict()


def shared_fit(gaps: Any, best: int, states: int) -> Sequence[Any]:
    """:func:`penstock.models.fit_kpc`, made once for the same gaps.

    Policies that are compared on one stream see the same arrivals, and fits are most of what their decisions cost.
    """
    key = blake2b(gaps.tobytes(), digest_size=16).digest(), best, states
    if key not in _SHARED:
        _SHARED[key] = fit_kpc(gaps, best=best, max_states=states)
        while len(_SHARED) > _MOST_SHARED:
            _SHARED.popitem(last=False)
    return _SHARED[key]


@dataclass(slots=True)
class Fits:
    """The processes of one decision; ``kept`` comes from the last decision and goes to the next."""

    model: str
    windows: int
    best: int
    max_states: int
    least: int
    keep: float
    refit: float
    fit: Fit | None
    now: float
    kept: dict[Window, KeptFit]

    def of(self, source: str, gaps: Any) -> tuple[Any, ...]:
        """The fitted processes of all windows, or processes without correlation."""
        parts = [
            (i, gaps[-(len(gaps) >> i) :])
            for i in range(self.windows)
            if len(gaps) >> i >= min(self.least, len(gaps))
        ]
        parts = [(i, part) for i, part in parts if part.sum() > 0]
        if self.model == "mg1":
            return tuple(Poisson(1.0 / float(p.mean())) for _, p in parts)
        if self.model == "gig1":  # micro-batches only: a renewal process with the same variability
            return tuple(
                fit_map2(float(p.mean()), scv=float(p.var() / p.mean() ** 2), decay=0.0) for _, p in parts
            )
        return tuple(fit for i, part in parts for fit in _credible(self._window((source, i), part)))

    def _window(self, window: Window, gaps: Any) -> Sequence[Any]:
        if self.fit is not None:
            return self.fit(gaps, self.best, self.max_states)
        kept = self.kept.get(window)
        # What was made of half as many seconds, or fewer, has not seen much of what there is to see.
        outgrown = kept is not None and float(gaps.sum()) >= 2 * kept.length
        found = kept.at(gaps, self._tolerance(kept)) if kept is not None and not outgrown else None
        if found is None:
            found = list(shared_fit(gaps, self.best, self.max_states))
            if self.keep > 0:
                self.kept[window] = KeptFit.of(found, gaps, self.now)
        return found

    def _tolerance(self, kept: KeptFit) -> float:
        return inf if self.now - kept.made < self.refit else self.keep


def _credible(fits: Sequence[Any]) -> list[Any]:
    """The fits that are about as good as the best: what a bad one predicts says nothing about the stream."""
    scores = [float(getattr(fit, "score", 0.0)) for fit in fits]
    return [fit for fit, score in zip(fits, scores, strict=True) if score <= 1.5 * min(scores) + 0.1]
