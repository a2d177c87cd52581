"""What the two default window stages share: closing panes and due windows, done in slices, one slice a task."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.spark.query.parts import Parts
from penstock.spark.query.reports import report
from penstock.spark.query.window_output import Span, WindowWriter


@dataclass(frozen=True, kw_only=True)
class SlicedStage:
    """A stage as a function of slice numbers."""

    parts: Parts
    #: Panes that close in this round, ascending.
    closing: tuple[int, ...]
    windows: tuple[Span, ...]
    #: Panes before this one are in no window to come.
    needed_from: int
    slices: int
    prefix: str
    writer: WindowWriter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the slices whose numbers come in."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield report(self._slice(number))

    def _slice(self, number: int) -> dict[str, Any]:
        raise NotImplementedError
