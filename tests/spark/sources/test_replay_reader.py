"""Offsets, partitions and rows of the replay source, without Spark."""

import json

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.sources.replay import Recording, ReplaySource, ReplayStreamReader
from penstock.spark.versions import ReadAllAvailable, ReadMaxRows
from penstock.traffic.trace import Trace, write_trace


@pytest.fixture
def trace(tmp_path):
    rng = np.random.default_rng(1)
    arrival = np.cumsum(rng.exponential(0.01, 5000))
    payload = pa.table({"name": [f"n{i % 7}" for i in range(5000)], "size": np.arange(5000)})
    made = Trace(arrival, arrival - rng.random(5000), payload)
    write_trace(tmp_path / "t.parquet", made)
    write_trace(tmp_path / "t.csv.gz", made)
    return made


def _reader(path, clock=lambda: 0.0, **options):
    source = ReplaySource({"path": str(path), **options})
    pacing, recording = source._parsed()
    return ReplayStreamReader(pacing, recording, source.schema(), clock)


def _rows(reader, start, end):
    return pa.Table.from_batches([b for part in reader.partitions(start, end) for b in reader.read(part)])


@pytest.mark.parametrize("file", ["t.parquet", "t.csv.gz"])
def test_the_trace_comes_out_as_it_went_in(trace, tmp_path, file):
    reader = _reader(tmp_path / file, partitions="3")
    offset, pieces = reader.initialOffset(), []
    while (end := reader.latestOffset(offset, ReadMaxRows(700))) != offset:
        pieces.append(_rows(_reader(tmp_path / file, partitions="3"), offset, json.loads(json.dumps(end))))
        offset = end
    table = pa.concat_tables(pieces)
    assert table.column_names == ["arrival", "event_time", "name", "size"]
    assert table["arrival"].to_numpy() == pytest.approx(trace.arrival)
    assert table["name"].to_pylist() == trace.payload["name"].to_pylist()
    assert table["size"].to_pylist() == list(range(5000))


def test_in_real_time_at_ten_times_the_speed(trace, tmp_path):
    now = [500.0]
    reader = _reader(tmp_path / "t.parquet", lambda: now[0], realtime="true", speed="10")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    now[0] += 2.0
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["row"] == int((trace.arrival < 20.0).sum())
    assert reader.latestOffset(start, ReadMaxRows(10))["row"] == 10
    assert reader.reportLatestOffset()["row"] == end["row"]
    assert reader.backlog({"row": 3}) == end["row"] - 3
    assert _rows(reader, start, end)["arrival"].to_numpy().max() < 2.0


def test_a_loop_starts_over(trace, tmp_path):
    reader = _reader(tmp_path / "t.parquet", loop="true")
    start = reader.initialOffset()
    table = _rows(reader, start, reader.latestOffset(start, ReadMaxRows(12_000)))
    assert len(table) == 12_000
    arrival = table["arrival"].to_numpy()
    assert np.all(np.diff(arrival) >= 0.0)
    assert np.diff(arrival)[5000:9999] == pytest.approx(np.diff(trace.arrival), abs=1e-9)
    with pytest.raises(PenstockError, match="has no last row"):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_loop_in_real_time_counts_its_rounds(trace, tmp_path):
    now = [0.0]
    reader = _reader(tmp_path / "t.parquet", lambda: now[0], loop="true", realtime="true")
    start = reader.initialOffset()
    reader.latestOffset(start, ReadAllAvailable())
    now[0] = 2.5 * Recording(str(tmp_path / "t.parquet")).lap
    assert 12_000 < reader.latestOffset(start, ReadAllAvailable())["row"] < 13_000


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"path": "nowhere.parquet"},
        {"path": "t.csv", "loop": "perhaps"},
        {"path": "t.csv", "colour": "red"},
        {"path": "t.txt"},
    ],
)
def test_bad_options_are_refused_in_one_sentence(options, tmp_path):
    if "path" in options:
        options["path"] = str(tmp_path / options["path"])
    with pytest.raises(PenstockError):
        ReplaySource(options).schema()
