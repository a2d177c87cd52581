"""The run's own loop over a source that has more rows than a batch may take."""

import time
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.spark.runtime import batch_size
from penstock.spark.runtime.first_offset import kept_first, known_first
from penstock.spark.runtime.locations import location
from penstock.spark.runtime.own_loop import Begin, OwnLoop
from penstock.spark.runtime.planned_end import kept_end
from penstock.spark.runtime.python_source import PythonSource, Span
from penstock.spark.sources.pacing import rows_allowed
from waiting import until

WAITING = 5_000


class Numbers(DataSourceStreamReader):
    """So many rows are there at once."""

    def initialOffset(self):
        return {"row": 0}

    def latestOffset(self, start, limit):
        return {"row": int(min(WAITING, start["row"] + rows_allowed(limit)))}

    def partitions(self, start, end):
        return []

    def read(self, partition):
        return iter(())


class CountedNumbers(Numbers):
    def backlog(self, end):
        return WAITING - end["row"]


def ends_of_batches(reader, slow=1e-4):
    """Ends of the batches of a run that takes some time for each row, and what each batch was told of the limit."""
    ends, limited = [], []

    def process(rows, number, span):
        taken = span.end["row"] - span.start["row"]
        time.sleep(slow * taken)
        ends.append(span.end["row"])
        limited.append(rows.limited)
        return taken

    source = PythonSource(reader, pa.schema([]), StructType())
    loop = OwnLoop(source, process, Begin(0, reader.initialOffset()), 0.01, available_now=False).start()
    until(lambda: ends and ends[-1] == WAITING, "the last row")
    loop.stop()
    return ends, limited


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(batch_size.BatchSize, "of", classmethod(lambda cls, trigger: cls(0.05, 0.05, 400)))


class Growing(Numbers):
    """Rows come while nobody reads; a new stream begins with what comes next."""

    def __init__(self, there):
        self.there = there

    def initialOffset(self):
        return {"row": self.there}

    def latestOffset(self, start, limit):
        return {"row": self.there}


@pytest.mark.parametrize("place", ["memory://first-offsets/ck", None])
def test_a_stream_begins_where_its_first_run_began_though_that_had_no_row(tmp_path, place):
    folder, spans = location(place or tmp_path), []
    if place is None:
        (tmp_path / "penstock").mkdir()

    def run(there):
        source = PythonSource(Growing(there), pa.schema([]), StructType())
        begin = Begin.of(None, None, partial(kept_first, folder, source.first))
        loop = OwnLoop(source, lambda rows, number, span: spans.append(span), begin, 0.0, available_now=True)
        assert loop.start().wait(None)
        assert loop.error is None

    assert known_first(folder) is None
    run(10)
    assert spans == []
    run(15)
    assert spans == [Span({"row": 10}, {"row": 15})]
    assert known_first(folder) == {"row": 10}


@pytest.mark.parametrize("place", ["memory://planned-ends/ck", None])
def test_a_batch_that_was_seen_but_not_committed_has_the_same_rows_after_a_crash(tmp_path, place):
    folder, spans = location(place or tmp_path), []
    if place is None:
        (tmp_path / "penstock" / "commits").mkdir(parents=True)

    def run(there, begin, dies=False):
        def process(rows, number, span):
            spans.append((number, span.start["row"], span.end["row"]))
            if dies:
                raise RuntimeError("the end")
            return 1.0

        source = PythonSource(Growing(there), pa.schema([]), StructType())
        keep = partial(kept_end, folder)
        loop = OwnLoop(source, process, begin, 0.0, available_now=True, keep=keep)
        assert loop.start().wait(None)
        assert (loop.error is not None) == dies

    run(10, Begin(4, {"row": 0}), dies=True)
    run(15, Begin(4, {"row": 0}))
    run(20, Begin(6, {"row": 15}))
    assert spans == [(4, 0, 10), (4, 0, 10), (5, 10, 15), (6, 15, 20)]
    assert [p.name for p in (folder / "penstock" / "commits").iterdir()] == ["000000000006.planned"]


def test_what_waits_is_taken_in_pieces_by_their_time(small):
    ends, limited = ends_of_batches(CountedNumbers())
    sizes = [b - a for a, b in pairwise([0, *ends])]
    assert sizes[0] == 400
    assert len(ends) > 3
    assert all(limited)
    assert max(sizes) <= 8 * 400


def test_a_source_that_does_not_count_its_rows_gives_all_at_once(small):
    assert ends_of_batches(Numbers()) == ([WAITING], [False])
