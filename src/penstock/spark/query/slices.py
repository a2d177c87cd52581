"""What the two default window stages share: closing panes and due windows, done in slices, one slice a task."""

from dataclasses import dataclass

from penstock.spark.query.reports import NumberedStage
from penstock.spark.query.window_rows import Parts, Span, WindowWriter


@dataclass(frozen=True, kw_only=True)
class SlicedStage(NumberedStage):
    """A stage whose pieces are slices."""

    parts: Parts
    #: Panes that close in this round, ascending.
    closing: tuple[int, ...]
    windows: tuple[Span, ...]
    #: Panes before this one are in no window to come.
    needed_from: int
    slices: int
    prefix: str
    writer: WindowWriter
