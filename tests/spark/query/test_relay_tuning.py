"""The relay experiment of ``AS_PID`` on resident workers finds gains where utilisation swings."""

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.preference.splitting import PidSplitting
from tuned_splitting import STRATEGY, busy, check_tuned

pytestmark = [pytest.mark.spark, pytest.mark.long]

COLUMNS = "uvwxyz"
#: Rows of a batch with much to do: no row dominates another, so that on a fast machine it takes a worker half of the trigger.
MUCH, LITTLE = 25_000, 20


class Recorded(PidSplitting):
    """Keeps the state after every step; strategies step in the driver."""

    def step(self, state, closed, utilisation):
        after = super().step(state, closed, utilisation)
        STATES.append(after.to_json())
        return after


STATES: list[dict] = []


def write_batch(folder: Path, number: int) -> None:
    """A file that is a batch: rows of one second, on a plane on which none dominates another."""
    rows = MUCH if busy(number) else LITTLE
    points = np.random.default_rng(number).random((rows, len(COLUMNS)))
    points /= points.sum(axis=1, keepdims=True)
    times = number + np.sort(np.random.default_rng(number).random(rows))
    path = folder / f"{number:03d}.parquet"
    pq.write_table(pa.table({"t": times, **dict(zip(COLUMNS, points.T, strict=True))}), path)
    os.utime(path, (number, number))  # Spark takes files by their age


def test_a_relay_experiment_on_resident_workers_finds_gains_that_are_used(spark, tmp_path):
    STATES.clear()
    (tmp_path / "in").mkdir()
    for number in range(32):
        write_batch(tmp_path / "in", number)
    query = ps.PreferenceQuery(
        ps.skyline_of(*map(ps.minimize, COLUMNS)), "t", "200 milliseconds",
        splitting=Recorded(STRATEGY.pid, tune=True), pane_workers=1, window_workers=1,
    )  # fmt: skip
    schema = ", ".join(f"{name} double" for name in ("t", *COLUMNS))
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    run = query.start(
        stream, output=tmp_path / "out", checkpoint=tmp_path / "ck", trigger="1 second", engine="resident"
    )
    give_up = time.monotonic() + 600
    while len(STATES) < 28 and time.monotonic() < give_up and run.is_active:
        time.sleep(0.2)
    run.stop()
    check_tuned(STATES)
