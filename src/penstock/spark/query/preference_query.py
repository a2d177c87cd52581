"""The streaming preference query: what a user writes, checks, starts."""

from dataclasses import dataclass

import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.preference.preference import Preference
from penstock.spark.query.pane_stage import GroupedPreference
from penstock.spark.query.static_windows import StaticPreference
from penstock.spark.query.stream_query import StreamQuery
from penstock.spark.query.window_stage import SHARED, STRATEGIES

RESERVED = ("window_start", "window_end")


@dataclass(frozen=True)
class _Preferred:
    preference: Preference


@dataclass(frozen=True)
class PreferenceQuery(StreamQuery, _Preferred):
    """The best rows of every window of a stream.

    Parameters
    ----------
    preference
        What is best: ``skyline_of(...)``, ``k_dominant_of(...)``, ``top_delta_of(...)``, ``top_k_of(...)``, or your own.
    time
        The column of the event time: a timestamp, or a number since 1970 (see ``unit``).
    window, slide
        Length of the windows and distance of their starts; without a slide windows do not overlap.
    by
        Columns that make groups: one answer per group and window.
    disorder
        How long to wait for late rows: ``KSlack()``, ``AdaptiveSlack(drop=...)``, ``FixedDelay(...)``, or
        ``InOrder(...)``, the papers' baseline that buffers and sorts.
    ahead, behind
        Rows further ahead of the stream than ``ahead``, or further behind it than ``behind``, are not believed and become
        dead letters, unless many rows confirm a jump ahead. One day each by default, or the window (for ``behind`` also
        the delay of the disorder handling) where that is longer.
    splitting
        Pane stage strategy: ``"AS_PID"`` (default), ``"AS"``, ``"PB_RR"``, ``"TB_RR"``, or one with options.
    window_strategy
        Window stage: ``"SHARED"`` (default: each pane is combined once), or the papers' ``"WIN_RR"``, ``"WIN_FB"``,
        ``"WIN_FB_MERGE"``. The answers are the same.
    pane_workers, window_workers
        Workers of the two stages at the start; by default one for each core, or as many as the run with the same
        checkpoint had last.
    overlap
        Give each stage workers of its own: windows that a batch completes are computed while the next batch is folded.
        More throughput where both stages cost about the same, answers one batch later. By default the stages run in turn
        on all workers.
    unit
        What a time counts that is a number: ``"seconds"`` (default), ``"milliseconds"``, ``"microseconds"`` or
        ``"nanoseconds"``. Bounds of windows are timestamps in any case.
    """

    window_strategy: str = SHARED

    def __post_init__(self) -> None:
        if not isinstance(self.preference, Preference):
            raise PenstockError(
                f"The preference is {self.preference!r}; write skyline_of(...), top_k_of(...), or a subclass of Preference."
            )
        if self.window_strategy not in STRATEGIES:
            raise unknown("window strategy", self.window_strategy, STRATEGIES)
        self.check_settings()

    def check(self, schema: pa.Schema) -> None:
        """Raise one sentence if rows of this schema cannot be asked this."""
        self.check_columns(schema)
        self.preference.check_schema(schema)
        taken = [n for n in (*RESERVED, *self.preference.extra_columns) if n in schema.names]
        if taken:
            raise PenstockError(
                f"The input has a column '{taken[0]}', which the result adds; rename it first."
            )

    @property
    def label(self) -> str:
        """The query in the run's journal, where it has no name."""
        columns = [attribute.column for attribute in self.preference.attributes]
        shown = columns if len(columns) < 5 else [*columns[:3], "..."]
        return f"{type(self.preference).__name__} of {', '.join(shown)}"

    def static(self, schema: pa.Schema) -> StaticPreference:
        """The same windows over a static table."""
        grouped = GroupedPreference(self.preference, self.groups)
        return StaticPreference(grouped, self.panes, self.time, schema, self.unit)
