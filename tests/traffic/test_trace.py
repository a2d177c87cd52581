"""Trace files: what goes in comes out, what is broken is refused in one sentence, nothing is half-written."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from locked import lock
from penstock.core.errors import PenstockError
from penstock.traffic import poisson
from penstock.traffic.disorder import UniformDelay
from penstock.traffic.stream import TupleStream
from penstock.traffic.trace import Trace, read_trace, write_trace

FILES = ["t.parquet", "t.csv", "t.csv.gz"]


def _trace(n=1000):
    rng = np.random.default_rng(1)
    arrival = np.sort(rng.random(n)) * 10.0
    return Trace(arrival, arrival - rng.random(n), pa.table({"a0": rng.random(n), "word": ["x"] * n}))


def test_moments_beside_seconds_from_the_start_are_on_one_clock(tmp_path):
    """Delays of minus 56 years, where one column counts from the start of the stream and the other from 1970."""
    begin = 1_767_225_600_000_000
    events = pa.array([begin, begin + 50_000, begin + 200_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"arrival": [0.1, 0.2, 0.3], "event_time": events}), tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet")
    assert (trace.arrival - trace.event_time).tolist() == pytest.approx([0.0, 0.05, 0.0])


@pytest.mark.parametrize("file", FILES)
def test_a_trace_survives_its_file(tmp_path, file):
    trace = _trace()
    assert write_trace(tmp_path / file, trace) == 1000
    again = read_trace(tmp_path / file)
    assert np.array_equal(again.arrival, trace.arrival)
    assert np.array_equal(again.event_time, trace.event_time)
    assert again.payload.column_names == ["a0", "word"]
    assert again.table().column_names == ["arrival", "event_time", "a0", "word"]


@pytest.mark.parametrize("file", FILES)
def test_a_stream_is_written_batch_by_batch(tmp_path, file):
    stream = TupleStream(poisson(20_000.0), UniformDelay(0.1), seconds=2.0, seed=1)
    rows = write_trace(tmp_path / file, stream.batches())
    assert rows == len(stream.table())
    assert np.array_equal(
        read_trace(tmp_path / file, payload=False).arrival, stream.table()["arrival"].to_numpy()
    )


def test_a_named_column_is_converted_and_counted_from_its_first_value(tmp_path):
    (tmp_path / "t.csv").write_text("ts_us,seen_us\n5000000,4000000\n6500000,6000000\n")
    trace = read_trace(tmp_path / "t.csv", "ts_us", "us", "seen_us")
    assert trace.arrival.tolist() == [0.0, 1.5]
    assert trace.event_time.tolist() == [-1.0, 1.0]


def test_timestamps_need_no_unit(tmp_path):
    table = pa.table({"at": pa.array([1_000, 2_500], pa.timestamp("ms"))})
    pq.write_table(table, tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet", "at").arrival.tolist() == [0.0, 1.5]


def test_nanoseconds_since_1970_lose_no_digits(tmp_path):
    start = 1_700_000_000_000_000_000
    (tmp_path / "t.csv").write_text(f"ts,seen\n{start},{start - 7}\n{start + 123},{start + 1}\n")
    trace = read_trace(tmp_path / "t.csv", "ts", "ns", "seen")
    assert trace.arrival.tolist() == [0.0, pytest.approx(123e-9)]
    assert trace.event_time.tolist() == [pytest.approx(-7e-9), pytest.approx(1e-9)]


def test_a_csv_of_dates_is_read(tmp_path):
    (tmp_path / "t.csv").write_text("at\n1998-04-30T21:30\n1998-04-30T21:31\n")
    assert read_trace(tmp_path / "t.csv", "at").arrival.tolist() == [0.0, 60.0]


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (pa.array([1_700_000_000.25, 1_700_000_001.75]), "s"),
        (pa.array([1_700_000_000_250, 1_700_000_001_750]), "ms"),
        (pa.array([1_700_000_000_250, 1_700_000_001_750], pa.timestamp("ms", "UTC")), "s"),
        (pa.array([250, 1_750], pa.timestamp("ms")), "s"),
    ],
)
def test_arrivals_by_the_clock_are_counted_from_the_first(tmp_path, values, unit):
    pq.write_table(pa.table({"arrival": values, "event_time": values}), tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet", unit=unit)
    assert trace.arrival.tolist() == [0.0, 1.5]
    assert trace.event_time.tolist() == [0.0, 1.5]


def test_arrivals_from_the_start_stay_as_they_are(tmp_path):
    (tmp_path / "t.csv").write_text("arrival,event_time\n5000000,4999999\n5000001,4999999\n")
    trace = read_trace(tmp_path / "t.csv")
    assert trace.arrival.tolist() == [5e6, 5e6 + 1]
    assert trace.event_time.tolist() == [5e6 - 1, 5e6 - 1]


def test_any_column_by_the_clock_in_another_unit_is_refused_with_it(tmp_path):
    """An hour of milliseconds was simulated as forty days."""
    path = tmp_path / "t.csv"
    path.write_text("ts\n1380000000000\n1380003600000\n")
    with pytest.raises(PenstockError, match=r"'ts' .* give --unit ms"):
        read_trace(path, column="ts")
    assert read_trace(path, column="ts", unit="ms").arrival.tolist() == [0.0, 3600.0]


@pytest.mark.parametrize(("digits", "unit"), [(12, "ms"), (15, "us"), (18, "ns")])
def test_arrivals_by_the_clock_in_another_unit_are_refused_with_it(tmp_path, digits, unit):
    (tmp_path / "t.csv").write_text(f"arrival\n{17 * 10 ** (digits - 1)}\n{18 * 10 ** (digits - 1)}\n")
    with pytest.raises(PenstockError, match=f"give --unit {unit}"):
        read_trace(tmp_path / "t.csv")
    assert read_trace(tmp_path / "t.csv", unit=unit).arrival.tolist() == [0.0, 1e8]


def test_event_times_have_a_unit_of_their_own(tmp_path):
    at = [1_700_000_000, 1_700_000_002]
    seen = pa.array([1_699_999_999_500, 1_700_000_001_000], pa.timestamp("ms"))
    pq.write_table(pa.table({"arrival": at, "event_time": seen}), tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").event_time.tolist() == pytest.approx([-0.5, 1.0])


def test_event_times_that_are_not_asked_for_may_be_anything(tmp_path):
    (tmp_path / "t.csv").write_text("arrival,event_time,x\n0,monday,1\n1,,2\n")
    trace = read_trace(tmp_path / "t.csv", event_times=False)
    assert trace.event_time is None
    with pytest.raises(PenstockError, match=r"'event_time'.*holds no numbers"):
        read_trace(tmp_path / "t.csv")


def test_a_folder_of_parquet_files_is_one_trace_in_order_of_their_names(tmp_path):
    for part in (2, 0, 1):
        rows = pa.table({"arrival": [2.0 * part, 2.0 * part + 1], "n": [part, part]})
        pq.write_table(rows, tmp_path / f"part-{part}.parquet")
    for other in ("_SUCCESS", "read me.txt", ".part-0.parquet.crc", "_half.parquet"):
        (tmp_path / other).write_text("no rows")
    trace = read_trace(tmp_path)
    assert trace.arrival.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert trace.payload["n"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert read_trace(tmp_path, payload=False).payload is None
    with pytest.raises(PenstockError, match="has no column 'ts'; it has arrival, n"):
        read_trace(tmp_path, "ts", payload=False)


def test_a_folder_without_parquet_files_is_told_as_one(tmp_path):
    with pytest.raises(PenstockError, match=r"The folder .* has no Parquet files; name"):
        read_trace(tmp_path)
    (tmp_path / "a.parquet").write_text("no rows")
    with pytest.raises(PenstockError, match="cannot be read"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("arrival\n1.0\n0.5\n", "not in order of arrival \\(row 2"),
        ("arrival\n1.0\nnan\n", "no number as arrival in row 2"),
        ("arrival\n1.0\n\n", None),
        ("arrival\n", "is empty"),
        ("", "cannot be read|holds no numbers|no column"),
        ("ts\n1\n", "has no column 'arrival'"),
        ("arrival\nmonday\n", "holds no numbers"),
        ("arrival,x\n1.0\n2.0,3\n", "cannot be read"),
        ("arrival,event_time\n1.0,nan\n", "no number as event time"),
    ],
)
def test_a_broken_csv_is_refused_in_one_sentence(tmp_path, content, sentence):
    file = tmp_path / "t.csv"
    file.write_text(content)
    if sentence is None:
        assert len(read_trace(file)) == 1
        return
    with pytest.raises(PenstockError, match=sentence) as caught:
        read_trace(file)
    assert "\n" not in str(caught.value)


def test_null_arrivals_are_refused(tmp_path):
    pq.write_table(pa.table({"arrival": pa.array([1.0, None])}), tmp_path / "t.parquet")
    with pytest.raises(PenstockError, match="no number as arrival in row 2"):
        read_trace(tmp_path / "t.parquet")


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_refused(tmp_path, file):
    write_trace(tmp_path / file, _trace())
    whole = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(b"\x00\xff\xfe" + whole[len(whole) // 2 :])
    with pytest.raises(PenstockError):
        read_trace(tmp_path / file)


def test_a_torn_gzip_is_refused(tmp_path):
    whole = gzip.compress(b"arrival\n" + b"\n".join(b"%d" % i for i in range(100_000)))
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PenstockError, match="cannot be read"):
        read_trace(tmp_path / "t.csv.gz")


@pytest.mark.parametrize("name", ["nowhere.parquet", "a-folder.csv", "t.txt"])
def test_a_missing_file_or_a_strange_name_is_refused(tmp_path, name):
    (tmp_path / "a-folder.csv").mkdir()
    (tmp_path / "t.txt").write_text("arrival\n1\n")
    with pytest.raises(PenstockError):
        read_trace(tmp_path / name)


def test_an_unknown_unit_is_refused(tmp_path):
    with pytest.raises(PenstockError, match="Unknown unit"):
        read_trace(tmp_path / "t.csv", unit="minutes")


@pytest.mark.parametrize("file", FILES)
def test_a_failure_leaves_nothing_behind(tmp_path, file):
    def broken():
        yield pa.RecordBatch.from_pydict({"arrival": [1.0]})
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_trace(tmp_path / file, broken())
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failure(tmp_path):
    write_trace(tmp_path / "t.parquet", _trace())

    def broken():
        yield pa.RecordBatch.from_pydict({"arrival": [1.0]})
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_trace(tmp_path / "t.parquet", broken())
    assert len(read_trace(tmp_path / "t.parquet")) == 1000


def test_an_unwritable_place_is_named(tmp_path):
    with pytest.raises(PenstockError, match="Cannot write the trace"):
        write_trace(tmp_path / "no" / "such" / "t.parquet", _trace())
    with pytest.raises(PenstockError, match="by its name"):
        write_trace(tmp_path / "t.xlsx", _trace())
    with pytest.raises(PenstockError, match="empty trace"):
        write_trace(tmp_path / "t.csv", iter(()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Trace(np.array([])),
        lambda: Trace(np.array([1.0, 0.0])),
        lambda: Trace(np.array([1.0]), np.array([1.0, 2.0])),
        lambda: Trace(np.array([1.0]), payload=pa.table({"a": [1, 2]})),
    ],
)
def test_an_impossible_trace_is_refused(make):
    with pytest.raises(PenstockError):
        make()


@pytest.mark.parametrize("name", ["locked/t.csv", "n" * 300 + ".csv"], ids=["locked", "long"])
def test_a_file_that_cannot_be_looked_at_is_told_with_the_reason(tmp_path, monkeypatch, name):
    lock(monkeypatch, tmp_path / "locked")
    with pytest.raises(PenstockError, match=r"cannot be read \((Permission denied|File name too long)\)"):
        read_trace(tmp_path / name)
