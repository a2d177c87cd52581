"""Results in tables and read as a stream, on Spark."""

import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.spark import DeltaTable
from small_query import question

pytestmark = pytest.mark.spark

STREAM = {"model": "poisson", "rate": "1000", "dims": "2", "delayMean": "0.05", "seconds": "4", "seed": "5"}


def rows(table):
    return sorted(tuple(sorted((k, str(v)) for k, v in row.items())) for row in table.to_pylist())


def test_results_of_a_query_are_a_stream_for_what_comes_after(spark, tmp_path):
    """Files become visible as a whole and once, so that a stream over the folder has each row once."""

    def after():
        stream = spark.readStream.schema(spark.read.parquet(str(tmp_path / "out")).schema)
        taken = stream.parquet(str(tmp_path / "out")).writeStream.option(
            "checkpointLocation", str(tmp_path / "after")
        )
        taken.trigger(availableNow=True).start(str(tmp_path / "copied")).awaitTermination()
        return rows(spark.read.parquet(str(tmp_path / "copied")).toArrow())

    whole = spark.read.format("penstock-traffic").options(**STREAM).load().orderBy("event_time").toArrow()
    (tmp_path / "in").mkdir()
    seen = 0
    for half in (0, 1):
        part = whole.slice(half * (whole.num_rows // 2), whole.num_rows // 2)
        pq.write_table(part, tmp_path / "in" / f"{half}.parquet")
        question().start(
            spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(
                str(tmp_path / "in")
            ),
            output=tmp_path / "out",
            checkpoint=tmp_path / "ck",
            available_now=True,
        ).await_termination()
        copied = after()
        assert copied == rows(spark.read.parquet(str(tmp_path / "out")).toArrow())
        assert len(copied) > seen
        seen = len(copied)


def test_answers_late_rows_and_dead_letters_of_a_query_go_to_tables(spark, tmp_path):
    deltalake = pytest.importorskip(
        "deltalake", reason="Delta is not installed: pip install 'penstock[delta]'"
    )
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("price")),
        time="at",
        window="1 second",
        disorder=ps.FixedDelay("1 millisecond"),
    )
    (tmp_path / "in").mkdir()

    def run(name, *lines):
        (tmp_path / "in" / name).write_text("".join(f"{line}\n" for line in lines))
        offers = spark.readStream.schema("at timestamp, price double, region string").csv(
            str(tmp_path / "in")
        )
        query.start(
            offers,
            output=DeltaTable(str(tmp_path / "best"), partition_by=("region",)),
            late=DeltaTable(str(tmp_path / "late")),
            dead_letters=DeltaTable(str(tmp_path / "dead")),
            checkpoint=tmp_path / "ck",
            available_now=True,
        ).await_termination()

    def found(name, *columns):
        table = deltalake.DeltaTable(tmp_path / name).to_pyarrow_table()
        return sorted(tuple(row[c] for c in columns) for row in table.to_pylist())

    run(
        "1.csv",
        "2026-01-01 00:00:00.5,3,north",
        "2026-01-01 00:00:00.6,2,south",
        "2026-01-01 00:00:05,9,north",
    )
    run("2.csv", "2026-01-01 00:00:00.7,1,north", "2026-01-01 00:00:06,,south", "2026-01-01 00:00:07,9,north")
    assert found("best", "price", "region") == [(2.0, "south"), (9.0, "north")]
    assert deltalake.DeltaTable(tmp_path / "best").metadata().partition_columns == ["region"]
    assert found("late", "price", "region") == [(1.0, "north")]
    assert found("dead", "price", "region") == [(None, "south")]
    assert "price" in found("dead", "reason")[0][0]
