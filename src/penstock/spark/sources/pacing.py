"""How a source delivers: in real time or as fast as possible, how much per batch, in how many partitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.spark.versions import ReadAllAvailable, ReadLimit, ReadMaxRows
from penstock.traffic.spec import camel, number

#: Where time 0 of a stream lies that is delivered as fast as possible, so that every run gives the same rows.
_EPOCH = "2026-01-01T00:00:00+00:00"
#: Rows per batch of a stream that is delivered as fast as possible.
_ROWS = 200_000

EVENT_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Pacing:
    """The options that both sources share.

    >>> Pacing.parse({"rowsPerBatch": "5000", "rate": "10"})
    (Pacing(realtime=False, speed=1.0, rows_per_batch=5000, partitions=2, epoch=None), {'rate': '10'})
    """

    realtime: bool = False
    #: All times are divided by this.
    speed: float = 1.0
    #: No batch has more rows; 0 for the default: no limit in real time, otherwise 200,000.
    rows_per_batch: int = 0
    partitions: int = 2
    #: Time 0 of the stream, in microseconds since 1970; by default the start in real time, otherwise 2026-01-01.
    epoch: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.speed < inf:
            raise PenstockError(f"A speed of {self.speed} is impossible; give a number above zero.")
        if self.rows_per_batch < 0 or self.partitions < 1:
            raise PenstockError(
                "Option 'rowsPerBatch' must be 0 (no limit) or more, and 'partitions' at least 1."
            )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "tuple[Pacing, dict[str, str]]":
        """Take these options out of all options; the rest is for the source itself."""
        rest, found = {}, {}
        names = {camel(name).lower(): name for name in cls.__dataclass_fields__}
        for option, text in options.items():
            name = names.get(option.lower().replace("_", ""))
            if name is None:
                rest[option] = text
            else:
                found[name] = _value(name, option, text)
        return cls(**found), rest

    def limit(self) -> ReadLimit:
        """What Spark asks for in each batch."""
        rows = self.rows_per_batch or (0 if self.realtime else _ROWS)
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def start(self, now: float) -> int:
        """Time 0 of a stream that starts now, in microseconds."""
        if self.epoch is not None:
            return self.epoch
        return round(now * 1e6) if self.realtime else _micros(_EPOCH)

    def horizon(self, epoch: int, now: float) -> float:
        """Up to which time of the stream tuples have arrived by now."""
        return (now - epoch / 1e6) * self.speed if self.realtime else inf

    def event_times(self, seconds: Floats, epoch: int) -> pa.Array:
        """Times of the stream as timestamps."""
        micros = np.rint(seconds * (1e6 / self.speed)).astype(np.int64) + epoch
        return pa.array(micros).cast(pa.timestamp("us")).cast(EVENT_TIME)


def rows_allowed(limit: ReadLimit | None) -> float:
    """How many rows a limit of Spark's allows; all where it has none."""
    return limit.max_rows if isinstance(limit, ReadMaxRows) else inf


def shares(rows: int, partitions: int) -> list[int]:
    """Sizes of the partitions of a batch: equal up to one row, none of them empty.

    >>> shares(7, 3), shares(2, 3), shares(0, 3)
    ([3, 2, 2], [1, 1], [])
    """
    parts = min(rows, partitions)
    return [rows // parts + (i < rows % parts) for i in range(parts)]


def _micros(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PenstockError(
            f"Option 'epoch' must be a time like 2026-01-01T00:00:00Z, not '{text}'."
        ) from None
    since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _value(name: str, option: str, text: str) -> Any:
    if name == "realtime":
        if text.lower() not in ("true", "false"):
            raise PenstockError(f"Option '{option}' must be true or false, not '{text}'.")
        return text.lower() == "true"
    if name == "epoch":
        return _micros(text)
    value = number(option, text, whole=name != "speed")
    if not isfinite(value):
        raise PenstockError(f"Option '{option}' must be a finite number.")
    return value
