"""Offsets, partitions and rows of the traffic source, without Spark: a clock in hand instead of the wall."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from penstock.core.errors import PenstockError
from penstock.spark.runtime.own_loop import Begin, OwnLoop
from penstock.spark.runtime.python_source import PythonSource
from penstock.spark.sources.pacing import Pacing, shares
from penstock.spark.sources.traffic import TrafficSource, TrafficStreamReader
from penstock.spark.versions import ReadAllAvailable, ReadMaxRows
from penstock.traffic import map2
from penstock.traffic.spec import StreamSpec

SPEC = StreamSpec(
    model="map2",
    rate=3000.0,
    dispersion=100.0,
    dims=2,
    keys=5,
    delay_mean=0.3,
    delay="bursty",
    seed=7,
    seconds=30.0,
)


def _reader(clock=None, spec=SPEC, **pacing):
    return TrafficStreamReader(Pacing(**pacing), spec.build(), clock or (lambda: 0.0))


def _rows(reader, start, end):
    reader = pickle.loads(pickle.dumps(reader))  # as a task gets it
    batches = [b for part in reader.partitions(start, end) for b in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else None


def _restarted(offset):
    return json.loads(json.dumps(offset))


@settings(max_examples=6, deadline=None)
@given(limits=st.lists(st.integers(1, 40_000), min_size=1, max_size=12), partitions=st.integers(1, 5))
@pytest.mark.parametrize("restart", [False, True])
def test_batches_add_up_to_the_whole_stream(restart, limits, partitions):
    whole = SPEC.build().table()
    reader = _reader(partitions=partitions)
    offset, pieces, turn = reader.initialOffset(), [], 0
    while True:
        if restart:
            reader, offset = _reader(partitions=partitions), _restarted(offset)
        limit = limits[turn % len(limits)] + 2000
        end = reader.latestOffset(offset, ReadMaxRows(limit))
        if end == offset:
            break
        assert end["rows"] - offset["rows"] <= limit
        again = _reader(partitions=partitions) if restart else reader
        pieces.append(_rows(again, offset, _restarted(end)))
        reader.commit(end)
        offset, turn = end, turn + 1
    table = pa.concat_tables(pieces)
    for column in ("arrival", "key", "a0", "a1"):
        assert np.array_equal(table[column].to_numpy(), whole[column].to_numpy())


def test_offsets_are_small():
    reader = _reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(50_000))
    assert len(json.dumps(end)) < 400


def test_in_real_time_only_what_has_arrived_is_delivered():
    now = [1_000_000.0]
    reader = _reader(lambda: now[0], realtime=True)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    offset = start
    arrival = SPEC.build().table()["arrival"].to_numpy()
    for elapsed in (0.5, 1.7, 1.7, 12.0, 29.0):
        now[0] = 1_000_000.0 + elapsed
        end = reader.latestOffset(offset, ReadAllAvailable())
        assert end["rows"] == int((arrival < elapsed).sum())
        offset = end
    now[0] += 1000.0
    end = reader.latestOffset(offset, ReadAllAvailable())
    assert end["rows"] == arrival.size
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_event_times_follow_the_wall_clock_in_real_time_and_survive_a_restart():
    now = [1_700_000_000.0]
    reader = _reader(lambda: now[0], realtime=True)
    start = reader.initialOffset()
    reader.latestOffset(start, ReadAllAvailable())
    now[0] += 2.0
    first = reader.latestOffset(start, ReadAllAvailable())
    now[0] += 100.0
    later = _reader(lambda: now[0], realtime=True)
    second = later.latestOffset(_restarted(first), ReadMaxRows(500))
    table = _rows(later, first, second)
    micros = table["event_time"].cast(pa.int64()).to_numpy()
    assert micros.min() >= 1_700_000_000_000_000
    assert micros.max() <= 1_700_000_010_000_000
    assert _rows(later, start, first)["event_time"].equals(_rows(reader, start, first)["event_time"])


def test_the_backlog_is_reported():
    now = [0.0]
    reader = _reader(lambda: now[0], realtime=True)
    start = reader.initialOffset()
    assert reader.reportLatestOffset() is None
    reader.latestOffset(start, ReadMaxRows(100))
    now[0] = 10.0
    end = reader.latestOffset(start, ReadMaxRows(100))
    arrived = int((SPEC.build().table()["arrival"].to_numpy() < 10.0).sum())
    assert reader.reportLatestOffset()["rows"] - end["rows"] == arrived - 100
    assert reader.backlog(end) == arrived - 100


def test_a_run_that_reads_its_source_itself_knows_what_each_batch_left():
    spec = SPEC.build().table()["arrival"].to_numpy()
    now = [0.0]
    reader = _reader(lambda: now[0], realtime=True, rows_per_batch=100)
    told = []

    def process(rows, number, span):
        now[0] += 1.0
        told.append((span.end["rows"], rows.left()))
        if len(told) == 5:
            loop.stop()

    source = PythonSource(reader, pa.schema([]), StructType())
    loop = OwnLoop(source, process, Begin(0, reader.initialOffset()), 0.0, available_now=False)
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    now[0] = 5.0
    loop.start()
    assert loop.wait(600)
    assert loop.error is None
    arrived = [int((spec < 6.0 + batch).sum()) for batch in range(5)]
    assert told == [(100 * (n + 1), rows - 100 * (n + 1)) for n, rows in enumerate(arrived)]


def test_speed_divides_all_times():
    slow, fast = _reader(), _reader(speed=4.0)
    start = slow.initialOffset()
    end = slow.latestOffset(start, ReadMaxRows(5000))
    a, b = _rows(slow, start, end), _rows(fast, start, end)
    assert b["arrival"].to_numpy() == pytest.approx(a["arrival"].to_numpy() / 4.0)
    now = [0.0]
    live = _reader(lambda: now[0], realtime=True, speed=4.0)
    live.latestOffset(start, ReadAllAvailable())
    now[0] = 1.0
    arrival = SPEC.build().table()["arrival"].to_numpy()
    assert live.latestOffset(start, ReadAllAvailable())["rows"] == int((arrival < 4.0).sum())


def test_available_now_ends_where_the_stream_stood():
    now = [0.0]
    reader = _reader(lambda: now[0], realtime=True)
    start = reader.initialOffset()
    reader.latestOffset(start, ReadAllAvailable())
    now[0] = 3.0
    reader.prepareForTriggerAvailableNow()
    now[0] = 20.0
    arrival = SPEC.build().table()["arrival"].to_numpy()
    assert reader.latestOffset(start, ReadAllAvailable())["rows"] == int((arrival < 3.0).sum())


def test_an_endless_stream_as_fast_as_possible_needs_a_limit():
    spec = StreamSpec(rate=1000.0)
    with pytest.raises(PenstockError, match="without end"):
        _reader(spec=spec).latestOffset(_reader(spec=spec).initialOffset(), ReadAllAvailable())


def test_the_driver_does_not_go_back_to_the_beginning_in_a_long_run():
    calls = []
    reader = _reader(spec=StreamSpec(model="map2", rate=1e5, dispersion=1000.0, delay_mean=0.2))
    process_run = type(map2(1.0, 2.0)).run
    original = process_run

    def counted(self, seeds, mark=None):
        calls.append(mark)
        return original(self, seeds, mark)

    offset = reader.initialOffset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(map2(1.0, 2.0)), "run", counted)
        for _ in range(50):
            end = reader.latestOffset(offset, ReadMaxRows(20_000))
            reader.partitions(offset, end)
            reader.commit(end)
            offset = end
    assert calls == []  # the same walk goes on


@given(rows=st.integers(0, 1000), partitions=st.integers(1, 20))
def test_shares_are_even_and_add_up(rows, partitions):
    parts = shares(rows, partitions)
    assert sum(parts) == rows
    assert not parts or (min(parts) >= 1 and max(parts) - min(parts) <= 1)


@pytest.mark.parametrize(
    "options",
    [
        {"rate": "-5"},
        {"rate": "many"},
        {"model": "map3"},
        {"model": "map2", "dispersion": "0.5"},
        {"model": "self-similar", "hurst": "1.0"},
        {"colour": "red"},
        {"realtime": "maybe"},
        {"speed": "0"},
        {"partitions": "0"},
        {"rowsPerBatch": "-1"},
        {"dims": "1.5"},
        {"epoch": "yesterday"},
        {"seconds": "-1"},
        {"delay": "late"},
    ],
)
def test_bad_options_are_refused_in_one_sentence(options):
    with pytest.raises(PenstockError) as caught:
        TrafficSource(options).schema()
    assert str(caught.value).count("\n") == 0


def test_options_may_be_written_in_any_case():
    schema = TrafficSource({"DIMS": "2", "delayMean": "0.1", "delay_mean": "0.1"}).schema()
    assert schema.fieldNames() == ["arrival", "event_time", "a0", "a1"]
