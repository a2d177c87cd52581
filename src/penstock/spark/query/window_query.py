"""``penstock.WindowQuery``: aggregates over sliding windows of a stream, by group."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.aggregates import Aggregate
from penstock.core.errors import PenstockError
from penstock.spark.query.grouped_aggregates import GroupedAggregates
from penstock.spark.query.judging import slack_by_recall
from penstock.spark.query.static_aggregates import StaticAggregates
from penstock.spark.query.stream_query import StreamQuery
from penstock.spark.query.window_program import WindowProgram

RESERVED = ("window_start", "window_end")


@dataclass(frozen=True)
class _Aggregated:
    aggregates: Mapping[str, Aggregate]


@dataclass(frozen=True)
class WindowQuery(StreamQuery, _Aggregated):
    """Aggregates of every window of a stream, one row a window and group.

    Rows are aggregated by pane where they are read; each pane is combined about three times, however many windows
    overlap. Everything else is as in :class:`penstock.PreferenceQuery`: disorder, exactly-once output, workers that
    come and go, policies, engines.

    Parameters
    ----------
    aggregates
        Name of the result -> ``count()``, ``sum_of("x")``, ``mean_of``, ``min_of``, ``max_of``, ``quantile_of("x", 0.99)``,
        ``distinct_of("x")`` of :mod:`penstock.aggregates`, or an :class:`~penstock.aggregates.Aggregate` of your own.
    time, window, slide, by, disorder, ahead, behind, splitting, pane_workers, window_workers, overlap, unit
        As in a preference query.

    >>> import penstock
    >>> from penstock.aggregates import count, quantile_of
    >>> query = penstock.WindowQuery(
    ...     {"calls": count(), "slow": quantile_of("seconds", 0.99)},
    ...     time="at", window="1 minute", slide="1 second", by="service",
    ... )
    >>> query.panes.panes_per_window
    60
    """

    program_type = WindowProgram

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise PenstockError('A window query needs aggregates by name, such as {"n": count()}.')
        for name, one in self.aggregates.items():
            if not isinstance(one, Aggregate):
                raise PenstockError(
                    f"The aggregate '{name}' is {one!r}; write count(), sum_of(...) or the like, or derive one from penstock.aggregates.Aggregate."
                )
        self.check_settings()
        if slack_by_recall(self.disorder) is not None:
            raise PenstockError(
                "AdaptiveSlack(recall=...) counts the rows that answers of a preference query lose; a window query gives "
                "one row a group: write AdaptiveSlack(drop=...)."
            )

    @property
    def label(self) -> str:
        """The query in the run's journal, where it has no name."""
        return ", ".join(self.aggregates)

    def check(self, schema: pa.Schema) -> None:
        """Raise one sentence if rows of this schema cannot be asked this."""
        self.check_columns(schema)
        taken = [*RESERVED, *self.groups]
        for name in self.aggregates:
            if name in taken or "." in name:
                raise PenstockError(
                    f"An aggregate cannot be called '{name}': the result has a column of that name, or it has a dot; rename it."
                )
        _ = GroupedAggregates(self.aggregates, self.groups, schema).results

    def static(self, schema: pa.Schema) -> StaticAggregates:
        """The same windows over a static table."""
        grouped = GroupedAggregates(self.aggregates, self.groups, schema)
        return StaticAggregates(grouped, self.panes, self.time, self.unit)
