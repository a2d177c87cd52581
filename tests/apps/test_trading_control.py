"""``penstock run trading --policy``: the experiment of the MPC paper on Spark, through the command."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from penstock.apps import trading
from penstock.apps.flow_app import Ended
from penstock.core.control_quality import ControlQuality
from waiting import PATIENCE


def test_quotes_of_a_walk_are_the_same_however_many_are_asked_for():
    options = trading.walk_options(2000, 20)
    few, many = trading.walked(500, options), trading.walked(4000, options)
    assert few.equals(many.slice(0, 500))
    counts = np.unique(many["symbol"].to_numpy(zero_copy_only=False), return_counts=True)[1]
    assert counts.max() > 5 * np.median(counts), "symbols are of very different frequency"
    assert many.schema.equals(
        pa.schema([("ts", pa.int64()), ("symbol", pa.string()), ("price", pa.float64())])
    )


def test_a_run_with_a_policy_ends_with_one_line_on_it():
    control = ControlQuality(60, 30, 4, 4.0, 2, 3, 0.1, 1.0, 2.0, 0.2, 84.4, 1.4, 0.61, 0.9)
    ended = Ended(60.0, 1000, 10, 0, 30, {"algotrader": 2}, {}, control=control, target=1.5)
    (line,) = ended.notes
    assert line == (
        "Control: latency 0.61 s (95th percentile 0.90 s), target 1.5 s (10% of the batches above it); "
        "84 core-seconds, 4 reconfigurations, 2 rebalances."
    )
    assert ended.figures["core_seconds"] == 84.4
    assert Ended(60.0, 1000, 10, 0, 30, {}, {}).notes == []


@pytest.mark.spark
@pytest.mark.long
def test_mpc_controls_trading_on_spark(tmp_path):
    words = [
        "--load",
        "walk",
        "--rate",
        "3000",
        "--symbols",
        "12",
        "--window",
        "100",
        "--policy",
        "mpc",
        "--target",
        "1",
        "--period",
        "1",
        "--trigger",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "trading", "--seconds", "12", "--json", *words, "500 milliseconds",
         "--checkpoint", str(tmp_path / "ck")],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["checked"] is True
    assert told["candles"] > 0
    assert told["core_seconds"] > 0
    assert told["latency_mean"] > 0
    assert any(note.startswith("Control: latency") and "target 1 s" in note for note in told["notes"])
    records = [json.loads(line) for line in (tmp_path / "ck" / "journal.jsonl").read_text().splitlines()]
    decisions = [r for r in records if r["kind"] == "decision"]
    assert {r["policy"] for r in decisions} == {"Mpc"}
    assert any("algotrader" in r["reason"] for r in decisions), [r["reason"] for r in decisions]
