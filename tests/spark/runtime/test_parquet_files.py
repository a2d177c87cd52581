"""Parquet files that workers read themselves hold the rows that Spark would have read, or are left to Spark."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.spark.runtime import parquet_files
from penstock.spark.runtime.parquet_files import Piece, ReadPiece, parquet_files_of, pieces

pytestmark = pytest.mark.spark

WANTED = pa.schema([("t", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("s", pa.string())])
SCHEMA = (
    "d double, f float, l long, i int, h short, b byte, o boolean, s string, y binary, e date, t timestamp, "
    "n timestamp_ntz, c decimal(12,3), missing double"
)


def moment(k):
    return dt.datetime(1921, 3, 1, tzinfo=dt.UTC) + dt.timedelta(days=400 * k, microseconds=k)


def typed(rows, first=0, unit="us", zone="UTC"):
    """All types that are read directly, with nulls in every column but one."""

    def column(make, kind):
        return pa.array([None if k % 7 == 3 else make(k) for k in range(first, first + rows)], kind)

    stamped = [
        None if k % 7 == 3 else int(moment(k).timestamp()) * (1_000 if unit == "ms" else 1_000_000)
        for k in range(first, first + rows)
    ]
    return pa.table(
        {
            "o": column(lambda k: k % 2 == 0, pa.bool_()),
            "extra": column(str, pa.string()),
            "d": column(lambda k: [0.5 * k, np.nan, np.inf, -0.0][k % 4], pa.float64()),
            "f": column(lambda k: 0.25 * k, pa.float32()),
            "l": pa.array(range(first, first + rows), pa.int64()),
            "i": column(lambda k: -k, pa.int32()),
            "h": column(lambda k: k, pa.int16()),
            "b": column(lambda k: k % 100, pa.int8()),
            "s": column(lambda k: "ä" * (k % 5), pa.large_string() if unit == "ms" else pa.string()),
            "y": column(lambda k: bytes([k % 256, 0]), pa.binary()),
            "e": column(lambda k: moment(k).date(), pa.date32()),
            "t": pa.array(stamped, pa.timestamp(unit, zone)),
            "n": column(lambda k: moment(k).replace(tzinfo=None), pa.timestamp("us")),
            "c": column(lambda k: decimal.Decimal(k) / 8, pa.decimal128(12, 3)),
        }
    )


def batches_of(stream, tmp_path, inside):
    """Run ``inside(frame)`` in each micro-batch; raise what it raised."""
    found = []

    def each(frame, _):
        try:
            found.append(inside(frame))
        except BaseException as error:  # noqa: BLE001 - Spark would wrap it
            found.append(error)

    writer = stream.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


def plain(table):
    """Rows in an order of their own, NaN made comparable."""
    rows = sorted(table.to_pylist(), key=lambda row: row["l"])
    return [{k: repr(v) for k, v in row.items()} for row in rows]


def test_workers_read_what_spark_reads(spark, tmp_path, monkeypatch):
    folder = tmp_path / "in put"  # a name that addresses write otherwise
    folder.mkdir()
    pq.write_table(typed(50), folder / "a.parquet", row_group_size=13)
    pq.write_table(typed(30, 50, "ms", "Europe/Berlin"), folder / "b.parquet", compression="zstd")
    pq.write_table(typed(0), folder / "empty.parquet")
    for kind, first in (("INT96", 100), ("TIMESTAMP_MICROS", 140)):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        made = (
            spark.createDataFrame(typed(40, first))
            .withColumn("n", F.col("n").cast("timestamp_ntz"))
            .coalesce(1)
        )
        made.write.mode("append").parquet(str(folder))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    monkeypatch.setattr(parquet_files, "PIECE_ROWS", 3)
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder)).drop("h").select("t", "*")
    assert parquet_files_of(stream) is None  # t twice
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder)).drop("h")
    files = parquet_files_of(stream)

    def compared(frame):
        rows, count = files.rows(frame, 40)
        mine = pa.Table.from_batches([b for read in rows.readings for b in read()], files.schema)
        theirs = frame.toArrow()
        assert count == theirs.num_rows == mine.num_rows == 160
        assert max(read.piece.parts for read in rows.readings) > 1
        assert mine.schema.types == theirs.schema.types
        return plain(mine) == plain(theirs)

    assert batches_of(stream, tmp_path, compared) == [True]


def test_streams_that_do_more_than_read_are_left_to_spark(spark, tmp_path):
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"v": [1, 2]}), tmp_path / "in" / "day=1" / "a.parquet")

    def reader():
        return spark.readStream.schema("v long, day int")

    bare = reader().parquet(str(tmp_path / "in"))
    for other in (
        bare.where("v > 1"),
        bare.selectExpr("v + 1 AS v"),
        bare.union(bare),
        reader().option("ignoreMissingFiles", "true").parquet(str(tmp_path / "in")),
        reader().json(str(tmp_path / "in")),
        spark.readStream.schema("v array<long>").parquet(str(tmp_path / "in")),
        spark.readStream.format("rate").load(),
    ):
        assert parquet_files_of(other) is None
    files = parquet_files_of(bare)
    found = batches_of(bare, tmp_path, lambda frame: files.rows(frame, 2))  # day is in no file
    assert found == [None]


@pytest.mark.parametrize(
    "columns",
    [
        {"v": pa.array([1], pa.int32())},
        {"V": pa.array([1], pa.int64())},
        {"v": pa.array([1], pa.int64()), "V": pa.array([1], pa.int64())},
        {"t": pa.array([1], pa.timestamp("ns", "UTC"))},
        {"t": pa.array([1], pa.timestamp("us"))},
        {"s": pa.array([b"x"])},
        {"v": pa.array([1], pa.int64()), "deep": pa.array([{"v": 1, "w": 2}])},
    ],
)
def test_columns_of_other_types_and_names_are_left_to_spark(columns, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    assert parquet_files._footer(str(tmp_path / "x.parquet"), WANTED) is None


def test_old_calendars_are_left_to_spark(tmp_path):
    for notes in ({"org.apache.spark.legacyINT96": ""}, {"org.apache.spark.version": "2.4.8"}):
        table = pa.table({"v": pa.array([1], pa.int64())}).replace_schema_metadata(notes)
        pq.write_table(table, tmp_path / "x.parquet")
        assert parquet_files._footer(str(tmp_path / "x.parquet"), WANTED) is None
    pq.write_table(table.replace_schema_metadata(), tmp_path / "x.parquet")
    assert parquet_files._footer(str(tmp_path / "x.parquet"), WANTED) == [1]


@pytest.mark.parametrize("sizes", [[0], [1], [200_000], [70_000, 500_000], [10] * 9])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_pieces_are_all_rows_once(sizes, workers, tmp_path):
    table = pa.table({"v": pa.array(range(sum(sizes)), pa.int64())})
    with pq.ParquetWriter(tmp_path / "x.parquet", table.schema) as writer:
        at = 0
        for size in sizes:
            writer.write_table(table.slice(at, size), row_group_size=max(1, size))
            at += size
    path = str(tmp_path / "x.parquet")
    wanted = pa.schema([("v", pa.int64())])
    made = pieces({path: parquet_files._footer(path, wanted)}, workers)
    rows = [v for piece in made for batch in ReadPiece(piece, wanted)() for v in batch["v"].to_pylist()]
    assert rows == list(range(sum(sizes)))


def test_a_file_that_is_gone_is_one_sentence(tmp_path):
    with pytest.raises(PenstockError, match="cannot be read"):
        next(ReadPiece(Piece(str(tmp_path / "gone.parquet"), (0,)), WANTED)())


def test_a_run_reads_files_by_its_workers_and_spark_knows_how_many_rows(spark, tmp_path):
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(8)
    for number in range(3):
        times = np.sort(rng.integers(0, 2_000_000, 150_000)) + number * 2_000_000
        columns = {"t": pa.array(times, pa.timestamp("us", "UTC")), "x": rng.random(150_000)}
        pq.write_table(pa.table(columns | {"y": rng.random(150_000)}), tmp_path / "in" / f"{number}.parquet")
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x"), ps.minimize("y")),
        time="t",
        window="1 second",
        disorder=ps.FixedDelay("2 seconds"),
    )
    stream = spark.readStream.schema("t timestamp, x double, y double").option("maxFilesPerTrigger", 1)
    stream = stream.parquet(str(tmp_path / "in")).select("y", "t", "x")
    run = query.start(
        stream,
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        engine="resident",
    )
    run.await_termination()
    assert [p["numInputRows"] for p in run.query.recentProgress if p["numInputRows"]] == [150_000] * 3
    assert run.progress["totals"]["rows"] == 450_000
    whole = pq.read_table(tmp_path / "in").select(["y", "t", "x"])
    made = pq.read_table(tmp_path / "out").to_pylist()
    given = {row["window_start"] for row in made}
    assert len(given) >= 2
    answer = [row for row in query.evaluate(whole).to_pylist() if row["window_start"] in given]
    assert sorted(map(repr, made)) == sorted(map(repr, answer))


@pytest.fixture
def zone_of_session(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    ("zone", "engines"), [("Etc/UTC", ("resident",) * 2), ("Europe/Rome", ("jobs", "resident"))]
)
def test_rows_of_all_ways_go_together_in_any_zone_of_the_session(
    spark, zone_of_session, tmp_path, zone, engines
):
    """More files than workers read themselves come as a DataFrame, or in tasks of Spark's; a single one does not."""
    zone_of_session(zone)
    (tmp_path / "in").mkdir()
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x"), ps.maximize("seen")),
        time="t", window="1 second", disorder=ps.FixedDelay("1 second"), pane_workers=2, window_workers=2,
    )  # fmt: skip
    for engine, files in zip(engines, (range(65), range(65, 66)), strict=True):
        for number in files:
            times = pa.array(np.arange(4) * 250_000 + number * 50_000, pa.timestamp("us", "UTC"))
            rows = pa.table({"t": times, "x": [1.0 * number, 3.0, 2.0, 5.0], "seen": times})
            pq.write_table(rows, tmp_path / "in" / f"{number:02}.parquet")
        stream = spark.readStream.schema("t timestamp, x double, seen timestamp").parquet(
            str(tmp_path / "in")
        )
        run = query.start(
            stream, output=tmp_path / "out", checkpoint=tmp_path / "ck", available_now=True, engine=engine
        )
        run.await_termination()
    assert run.progress["totals"]["rows"] == 66 * 4
    made = pq.read_table(tmp_path / "out")
    assert (
        made.schema.field("window_start").type == made.schema.field("seen").type == pa.timestamp("us", "UTC")
    )
    given = set(made["window_start"].to_pylist())
    answer = query.evaluate(pq.read_table(tmp_path / "in")).to_pylist()
    assert len(given) == 3
    assert sorted(map(repr, made.to_pylist())) == sorted(
        repr(r) for r in answer if r["window_start"] in given
    )
