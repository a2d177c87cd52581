"""The queries as Structured Streaming writes them, on streams with a timestamp column ``ts`` beside ``at``."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock_lab.nexmark import EUROS, GAP, SELECTED, SLIDE, WINDOW

#: Seconds by which rows may be late; the generator's never are.
LATE = "0 seconds"


def timed(frame: DataFrame) -> DataFrame:
    """With the event time as a timestamp, and a watermark by it."""
    return frame.withColumn("ts", F.timestamp_micros((F.col("at") * 1e6).cast("long"))).withWatermark(
        "ts", LATE
    )


def q1(bids: DataFrame) -> DataFrame:
    """Bids in another currency."""
    return bids.select("auction", "bidder", (F.col("price") * EUROS).alias("euros"))


def q2(bids: DataFrame) -> DataFrame:
    """Bids on some auctions."""
    return bids.where(F.col("auction") % SELECTED == 0).select("auction", "price")


def q5(bids: DataFrame) -> DataFrame:
    """Hot items: two aggregations one after the other."""
    counts = timed(bids).groupBy(F.window("ts", f"{WINDOW} seconds", f"{SLIDE} seconds"), "auction").count()
    hot = counts.groupBy(F.window(F.window_time("window"), f"{SLIDE} seconds").alias("own"), F.col("window.end").alias("until")).agg(
        F.max(F.struct(F.col("count").alias("n"), "auction")).alias("best")
    )  # fmt: skip
    return hot.select(F.unix_timestamp("until").alias("end"), "best.auction", "best.n")


def q8(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    """New users: a join of two streams on person and window."""
    came, opened = (
        timed(frame).select(F.col("person"), F.window("ts", f"{WINDOW} seconds").alias("window"), "ts").dropDuplicates(["person", "window"])
        for frame in (persons, auctions)
    )  # fmt: skip
    opened = opened.withColumnRenamed("ts", "opened_ts")
    both = came.join(opened, ["person", "window"])
    return both.select("person", F.unix_timestamp("window.start").alias("start"))


def q11(bids: DataFrame) -> DataFrame:
    """Visits."""
    visits = timed(bids).groupBy(F.session_window("ts", f"{GAP} seconds").alias("visit"), "bidder").count()
    start = (F.unix_micros("visit.start") / 1e6).alias("start")
    return visits.select("bidder", start, F.col("count").alias("rows"))


#: Query -> how it is made, its sources, and how it gives out.
QUERIES: dict[str, tuple[Callable[..., DataFrame], tuple[str, ...]]] = {
    "q1": (q1, ("bids",)),
    "q2": (q2, ("bids",)),
    "q5": (q5, ("bids",)),
    "q8": (q8, ("persons", "auctions")),
    "q11": (q11, ("bids",)),
}


def start(frame: DataFrame, checkpoint: str, output: Any = None) -> Any:
    """Run to the end of what is there, to nowhere or as Parquet files."""
    writer = (
        frame.writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    return writer.format("noop").start() if output is None else writer.format("parquet").start(str(output))
