"""Workers that come and go under load: one run whose number of workers changes every few seconds, against the static answer.

``python -m penstock_lab.benches.latency_rescale SPEC`` prints the figures of one run as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import penstock as ps
from penstock.spark import session
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table

#: Seconds between two changes, and the numbers of workers in turn.
EVERY = 4.0
TURNS = (2, 1, 3, 2, 3, 1)
RATE, ROWS_A_BATCH = 20_000, 2_000
#: Seconds after the first batch with the new number in which batches still count as touched by the change.
SETTLED = 1.0


def add(page: ResultsPage, minutes: float) -> None:
    """Run it in a process of its own and add what it showed."""
    with tempfile.TemporaryDirectory(prefix="penstock-rescale-") as scratch:
        spec = json.dumps({"folder": scratch, "seconds": 60 * minutes})
        command = [sys.executable, "-m", "penstock_lab.benches.latency_rescale", spec]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"a run of the benchmark failed:\n{done.stderr[-3000:]}")
        seen = json.loads(done.stdout.strip().splitlines()[-1])
    rows = [
        ("changes", seen["changes"]),
        ("batches", seen["batches"]),
        *((f"batch ms, {word}", 1e3 * v) for word, v in zip(("P50", "P95", "longest"), seen["batch"], strict=True)),
        ("batches longer than three times the median after a change, %", _share(seen["long_after"])),
        ("the same, all others, %", _share(seen["long_else"])),
        *((f"from rescale to the first batch with the new number, ms, {word}", 1e3 * v) for word, v in zip(("P50", "longest"), seen["reached"], strict=True)),
        ("windows compared with the static answer", seen["windows"]),
        ("windows that differ", seen["wrong"]),
    ]  # fmt: skip
    note = (
        f"{RATE:,} tuples/s in batches of {ROWS_A_BATCH:,}, a trigger of 100 ms, {min(TURNS)} to {max(TURNS)} workers, another number every {EVERY:g} s. "
        f"A batch counts as after a change until {SETTLED:g} s after the first one with the new number of workers."
    )
    page.tables.append(Table("Workers added and removed under load", ("what", "seen"), rows, note))
    least = 20 if page.quick else 100
    page.claim(
        "no window is wrong",
        "0",
        str(seen["wrong"]),
        judged(seen["wrong"] == 0 and seen["windows"] > least, f"0, of more than {least} windows"),
    )
    page.claim(
        "no batch after a change is longer than three times the median",
        f"at most {3e3 * seen['batch'][0]:.0f} ms",
        f"{1e3 * seen['after_change']:.0f} ms",
        seen["after_change"] <= 3 * seen["batch"][0],
        full=True,
    )


def _share(counts: Sequence[int]) -> float:
    """So many of so many, in per cent."""
    part, whole = counts
    return 100 * part / whole if whole else 0.0


def main(text: str) -> None:
    """Run, change the number of workers, compare, print."""
    spec = json.loads(text)
    folder = Path(spec["folder"])
    spark = session("local[6]", app="penstock bench rescale", config={"spark.default.parallelism": "2"})
    options = {
        "model": "poisson",
        "rate": RATE,
        "dims": 8,
        "delayMean": 0.02,
        "seconds": spec["seconds"] + 30,
        "seed": 7,
    }
    shown = {key: str(value) for key, value in options.items()}
    stream = (
        spark.readStream.format("penstock-traffic").options(**shown, rowsPerBatch=str(ROWS_A_BATCH)).load()
    )
    query = _question()
    run = query.start(
        stream, output=folder / "out", checkpoint=folder / "ck", trigger="100 milliseconds", engine="resident"
    )
    seen = _changed(run, spec["seconds"])
    run.stop()
    # Through files: the answers of five minutes are more than a driver takes at once.
    answer = query.evaluate(spark.read.format("penstock-traffic").options(**shown).load())
    answer.write.parquet(str(folder / "whole"))
    seen |= _compared(pq.read_table(folder / "out"), pq.read_table(folder / "whole"))
    spark.stop()
    sys.stdout.write("\n" + json.dumps(seen) + "\n")
    sys.stdout.flush()
    os._exit(0)


def _question() -> ps.PreferenceQuery:
    return ps.PreferenceQuery(
        ps.skyline_of(*[ps.minimize(f"a{i}") for i in range(8)]),
        time="event_time",
        window="1 second",
        slide="200 milliseconds",
        disorder=ps.FixedDelay("2 seconds"),  # nothing is late
        pane_workers=TURNS[-1],
        window_workers=TURNS[-1],
    )


def _changed(run: Any, seconds: float) -> dict[str, Any]:
    """Change the number of workers every few seconds; how long batches took, and until a change was there."""
    batches: list[tuple[float, float]] = []
    run.listen(lambda f: batches.append((time.monotonic(), f["seconds"])))
    while len(batches) < 50:
        time.sleep(0.1)
    first, began, reached, changes = len(batches), time.monotonic(), [], []
    for turn in range(int(seconds / EVERY)):
        wanted = TURNS[turn % len(TURNS)]
        asked = time.monotonic()
        run.rescale(wanted, wanted)
        changes.append(asked)
        while len(run.progress.get("worker_busy", ())) != wanted and time.monotonic() - asked < 30.0:
            time.sleep(0.005)
        reached.append(time.monotonic() - asked)
        time.sleep(max(0.0, began + (turn + 1) * EVERY - time.monotonic()))
    ended, took = (np.array(column) for column in zip(*batches[first:], strict=True))
    after = np.zeros(len(took), dtype=bool)
    for asked, took_up in zip(changes, reached, strict=True):
        after |= (ended > asked) & (ended <= asked + took_up + SETTLED)
    too_long = took > 3 * np.median(took)
    return {
        "changes": len(changes),
        "batches": len(took),
        "batch": [*np.percentile(took, [50, 95]).tolist(), float(took.max())],
        "after_change": float(took[after].max()),
        "long_after": [int(too_long[after].sum()), int(after.sum())],
        "long_else": [int(too_long[~after].sum()), int((~after).sum())],
        "reached": [float(np.median(reached)), max(reached)],
    }


def _compared(made: Any, whole: Any) -> Mapping[str, Any]:
    # Spark writes times in another form.
    whole = whole.select(made.column_names).cast(made.schema)
    whole = whole.filter(pc.less_equal(whole["window_start"], pc.max(made["window_start"])))
    keys = [(name, "ascending") for name in made.column_names]
    ours, theirs = made.sort_by(keys), whole.sort_by(keys)
    windows = pc.unique(theirs["window_start"])
    wrong = 0
    if not ours.equals(theirs):
        for start in windows:
            one, other = (t.filter(pc.equal(t["window_start"], start)) for t in (ours, theirs))
            wrong += not one.equals(other)
        wrong = max(wrong, 1)
    return {"windows": len(windows), "wrong": wrong}


if __name__ == "__main__":
    main(sys.argv[1])
