"""The pane model: windows are unions of disjoint panes, so each row is looked at once.

Pane length L = gcd(window, slide). Pane p covers [p L, (p + 1) L), window i covers [i slide, i slide + window), for
all integers, negative ones too; that is how Spark aligns its sliding windows. (Li et al.: No pane, no gain, 2005.)
"""

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Ints
from penstock.core.durations import microseconds
from penstock.core.errors import PenstockError

Numbers = Ints

#: More panes a window than this means that window and slide have no sensible common measure.
MOST_PANES = 10_000


@dataclass(frozen=True)
class PaneModel:
    """Panes and windows of a window length and a slide, both in microseconds.

    >>> model = PaneModel.of("1 second", "200 milliseconds")
    >>> model.pane_us, model.panes_per_window, model.panes_per_slide
    (200000, 5, 1)
    """

    window_us: int
    slide_us: int

    def __post_init__(self) -> None:
        if self.window_us <= 0 or self.slide_us <= 0:
            raise PenstockError("Window and slide must be longer than zero; give positive lengths.")
        if self.slide_us > self.window_us:
            raise PenstockError(
                f"The slide ({self.slide_us} us) is longer than the window ({self.window_us} us), "
                "so rows between two windows would be lost; choose a slide up to the window."
            )
        if self.panes_per_window > MOST_PANES:
            raise PenstockError(
                f"Window ({self.window_us} us) and slide ({self.slide_us} us) have only {self.pane_us} us in common, "
                f"which makes {self.panes_per_window} panes a window; choose lengths with a larger common measure."
            )

    @classmethod
    def of(cls, window: str, slide: str | None = None) -> "PaneModel":
        """From lengths in words; without a slide the windows do not overlap."""
        return cls(microseconds(window, "window"), microseconds(slide or window, "slide"))

    @property
    def pane_us(self) -> int:
        """Length of a pane."""
        return gcd(self.window_us, self.slide_us)

    @property
    def panes_per_window(self) -> int:
        """Panes in a window."""
        return self.window_us // self.pane_us

    @property
    def panes_per_slide(self) -> int:
        """Panes from the start of a window to the start of the next."""
        return self.slide_us // self.pane_us

    def pane_of(self, times_us: ArrayLike) -> Numbers:
        """The pane of each time (floor, also for times before zero)."""
        return np.floor_divide(np.asarray(times_us, dtype=np.int64), self.pane_us)

    def pane_bounds(self, pane: int) -> tuple[int, int]:
        """Start and end (exclusive) of a pane."""
        return pane * self.pane_us, (pane + 1) * self.pane_us

    def window_bounds(self, windows: ArrayLike) -> tuple[Numbers, Numbers]:
        """Starts and ends (exclusive) of windows."""
        starts = np.asarray(windows, dtype=np.int64) * self.slide_us
        return starts, starts + self.window_us

    def panes_of_window(self, window: int) -> tuple[int, int]:
        """First and last pane of a window."""
        first = window * self.panes_per_slide
        return first, first + self.panes_per_window - 1

    def windows_of_pane(self, pane: int) -> range:
        """The windows that hold a pane.

        >>> list(PaneModel(5, 2).windows_of_pane(0))
        [-2, -1, 0]
        """
        first, last = self._windows_of(np.array([pane], dtype=np.int64))
        return range(int(first[0]), int(last[0]) + 1)

    def closed_before(self, punctuation_us: int) -> int:
        """The first pane that is still open: all panes below it end at or before the punctuation."""
        return punctuation_us // self.pane_us

    def complete_up_to(self, punctuation_us: int) -> int:
        """The last window that ends at or before the punctuation."""
        return (punctuation_us - self.window_us) // self.slide_us

    def windows_to_emit(
        self, nonempty_panes: ArrayLike, punctuation_us: int, after_window: int | None = None
    ) -> Numbers:
        """Windows with at least one nonempty pane that are complete, in order, those after ``after_window`` only.

        The cost is that of the panes given and the windows returned; gaps in time cost nothing.

        >>> PaneModel(4, 2).windows_to_emit([0, 1_000_000], punctuation_us=2_000_002).tolist()
        [-1, 0, 999999]
        """
        panes = np.unique(np.asarray(nonempty_panes, dtype=np.int64))
        first, last = self._windows_of(panes)
        last = np.minimum(last, self.complete_up_to(punctuation_us))
        if after_window is not None:
            first = np.maximum(first, after_window + 1)
        # Both ends ascend with the pane, so what an earlier pane has named is a prefix of each range.
        named = np.maximum.accumulate(np.concatenate([np.full(1, np.iinfo(np.int64).min), last]))[:-1]
        first = np.maximum(first, np.where(named == np.iinfo(np.int64).min, first, named + 1))
        counts = np.maximum(last - first + 1, 0)
        begins = np.repeat(first - (np.cumsum(counts) - counts), counts)
        return begins + np.arange(int(counts.sum()), dtype=np.int64)

    def first_pane_needed(self, last_window: int) -> int:
        """The first pane that any window after ``last_window`` holds; older state can go."""
        return (last_window + 1) * self.panes_per_slide

    def _windows_of(self, panes: Numbers) -> tuple[Numbers, Numbers]:
        first = -np.floor_divide(self.panes_per_window - 1 - panes, self.panes_per_slide)
        return first, np.floor_divide(panes, self.panes_per_slide)
