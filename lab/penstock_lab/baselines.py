"""The same jobs as a Spark user writes them today: opponents of the benchmarks and nothing else."""

from collections.abc import Iterator
from math import exp
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def native(
    frame: DataFrame, keys: list[str], figures: list[str], checkpoint: str, available_now: bool = True
) -> StreamingQuery:
    """Spark's own aggregation with RocksDB, in update mode, to nowhere."""
    spark = frame.sparkSession
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    frame.createOrReplaceTempView("penstock_rival")
    columns = ", ".join([*keys, *figures])
    grouped = spark.sql(f"SELECT {columns} FROM penstock_rival GROUP BY {', '.join(keys)}")
    writer = grouped.writeStream.outputMode("update").format("noop").option("checkpointLocation", checkpoint)
    writer = (
        writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
    )
    return writer.start()


class _Totals(StatefulProcessor):
    """A running count and sum of a key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._state = handle.getValueState("totals", "n long, s double")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Add the rows of one key."""
        import pandas as pd

        n, s = self._state.get() or (0, 0.0)
        for frame in rows:
            n += len(frame)
            s += float(frame["value"].sum())
        self._state.update((n, s))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "s": [s]})

    def close(self) -> None:
        """Nothing to close."""


class _TotalsByRow(_Totals):
    """The same with rows instead of frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Add the rows of one key."""
        n, s = self._state.get() or (0, 0.0)
        for row in rows:
            n += 1
            s += row.value
        self._state.update((n, s))
        yield Row(key=key[0], n=n, s=s)


class _Words(StatefulProcessor):
    """The count of a word."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._state = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Count the rows of one word."""
        import pandas as pd

        (n,) = self._state.get() or (0,)
        n += sum(len(frame) for frame in rows)
        self._state.update((n,))
        yield pd.DataFrame({"word": [key[0]], "n": [n]})

    def close(self) -> None:
        """Nothing to close."""


class _WordsByRow(_Words):
    """The same with rows instead of frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Count the rows of one word."""
        (n,) = self._state.get() or (0,)
        n += sum(1 for _ in rows)
        self._state.update((n,))
        yield Row(word=key[0], n=n)


class _Bargains(StatefulProcessor):
    """Volume-weighted average price of a symbol, and its quotes below it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._state = handle.getValueState("totals", "amount double, volume double")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Go through the trades and quotes of one symbol in order of time."""
        import numpy as np
        import pandas as pd

        amount, volume = self._state.get() or (0.0, 0.0)
        frame = pd.concat(list(rows)).sort_values("ts", kind="stable")
        trade = frame["trade"].to_numpy()
        sizes = np.where(trade, frame["size"].to_numpy(), 0)
        amounts = amount + np.cumsum(sizes * frame["price"].to_numpy())
        volumes = volume + np.cumsum(sizes)
        self._state.update((float(amounts[-1]), float(volumes[-1])))
        vwap = amounts / np.maximum(volumes, 1)
        chosen = ~trade & (frame["price"].to_numpy() < vwap)
        ask = frame["price"].to_numpy()[chosen]
        index = frame["size"].to_numpy()[chosen] * np.exp(vwap[chosen] - ask)
        yield pd.DataFrame(
            {
                "symbol": key[0],
                "ts": frame["ts"].to_numpy()[chosen],
                "ask": ask,
                "vwap": vwap[chosen],
                "index": index,
            }
        )

    def close(self) -> None:
        """Nothing to close."""


class _BargainsByRow(_Bargains):
    """The same with rows instead of frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Go through the trades and quotes of one symbol in order of time."""
        amount, volume = self._state.get() or (0.0, 0.0)
        for row in sorted(rows, key=lambda r: r.ts):
            if row.trade:
                amount += row.price * row.size
                volume += row.size
            elif volume and row.price < (vwap := amount / volume):
                index = row.size * exp(min(vwap - row.price, 700.0))
                yield Row(symbol=key[0], ts=row.ts, ask=row.price, vwap=vwap, index=index)
        self._state.update((amount, volume))


#: Job -> processor of frames, processor of rows, key, schema of the results.
_JOBS = {
    "totals": (_Totals, _TotalsByRow, "key", "key long, n long, s double"),
    "words": (_Words, _WordsByRow, "word", "word string, n long"),
    "bargains": (
        _Bargains,
        _BargainsByRow,
        "symbol",
        "symbol string, ts long, ask double, vwap double, index double",
    ),
}


def transform_with_state(frame: DataFrame, job: str, checkpoint: str, by_row: bool = False) -> StreamingQuery:
    """A job written with Python's ``transformWithState``, in frames or row by row, to nowhere."""
    spark = frame.sparkSession
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    frames, rows, key, schema = _JOBS[job]
    grouped = frame.groupBy(key)
    call = grouped.transformWithState if by_row else grouped.transformWithStateInPandas
    made = call(
        statefulProcessor=rows() if by_row else frames(),
        outputStructType=schema,
        outputMode="Update",
        timeMode="None",
    )
    writer = made.writeStream.outputMode("update").format("noop").option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()
