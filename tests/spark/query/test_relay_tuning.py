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
from waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.long]

#: Rows of a batch with much to do, and of one with little; each costs a worker a fifth of a millisecond or more.
MUCH, LITTLE, COST = 5_000, 10, 2e-4


class Slow(ps.Preference):
    """The lowest price, with a wait for each row: so that a batch costs the same on every machine."""

    attributes = (ps.minimize("price"),)

    def select(self, points):
        time.sleep(COST * len(points))
        return np.flatnonzero(points[:, 0] == points[:, 0].min(initial=np.inf))

    def merge(self, left, right):
        kept = self.select(np.vstack([left, right]))
        return kept[kept < len(left)], kept[kept >= len(left)] - len(left)


class Recorded(PidSplitting):
    """Keeps the state after every step; strategies step in the driver."""

    def step(self, state, closed, utilisation):
        after = super().step(state, closed, utilisation)
        STATES.append(after.to_json())
        return after


STATES: list[dict] = []


def write_batch(folder: Path, number: int) -> None:
    """A file that is a batch: the rows of one second."""
    draw, rows = np.random.default_rng(number), MUCH if busy(number) else LITTLE
    path = folder / f"{number:03d}.parquet"
    pq.write_table(pa.table({"t": number + np.sort(draw.random(rows)), "price": draw.random(rows)}), path)
    os.utime(path, (number, number))  # Spark takes files by their age


def test_a_relay_experiment_on_resident_workers_finds_gains_that_are_used(spark, tmp_path):
    STATES.clear()
    (tmp_path / "in").mkdir()
    for number in range(32):
        write_batch(tmp_path / "in", number)
    query = ps.PreferenceQuery(
        Slow(), "t", "200 milliseconds", splitting=Recorded(STRATEGY.pid, tune=True), pane_workers=1, window_workers=1
    )  # fmt: skip
    files = spark.readStream.schema("t double, price double").option("maxFilesPerTrigger", 1)
    run = query.start(
        files.parquet(str(tmp_path / "in")),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        trigger="2 seconds",
        engine="resident",
    )
    until(lambda: len(STATES) >= 28, "28 batches")
    run.stop()
    check_tuned(STATES)
