"""A MAP that came out of a fit: the process itself, and how well it matches what was asked for."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from penstock.models.map import MAP


class FittedMap(MAP):
    """A MAP with the story of its fit.

    ``exact`` tells whether every asked figure is met; ``notes`` say in words which one was moved to the nearest
    feasible value; ``errors`` holds the relative error of each statistic.
    """

    def __init__(
        self,
        D0: ArrayLike,
        D1: ArrayLike,
        *,
        exact: bool = True,
        notes: tuple[str, ...] = (),
        errors: Mapping[str, float] | None = None,
        window: str = "all",
        score: float = 0.0,
    ) -> None:
        super().__init__(D0, D1)
        self.exact = exact
        self.notes = notes
        self.errors: dict[str, float] = dict(errors or {})
        #: Which part of the trace it was fitted on.
        self.window = window
        #: The figure that ranks several fits of one trace; smaller is better.
        self.score = score
