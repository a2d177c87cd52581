"""Nexmark: the flows and the queries of Structured Streaming give what plain Python gives."""

import os
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from penstock.dataflow import Reference
from penstock.dataflow.graph import Graph
from penstock_lab import families
from penstock_lab.benches.nexmark_live import changes_to_converge
from penstock_lab.benches.nexmark_policies import SEED, START, PolicyTrial, simulated
from penstock_lab.nexmark import WINDOW, oracle
from penstock_lab.nexmark.events import BIDS, OPENED, PEOPLE, generate
from penstock_lab.nexmark.flows import FLOWS

EVENTS = generate(6_000, rate=150.0, seed=3)
UNTIL = float(EVENTS.bids["at"][-1].as_py())
COLUMNS = {"bids": BIDS, "persons": PEOPLE, "auctions": OPENED}


def answers(query, seconds=1.5):
    """All that a flow gives out, fed some seconds at a time, and how far event time came before its last batch."""
    make, sources = FLOWS[query]
    run, found = Reference(make(Graph(query), *(COLUMNS[s] for s in sources))), []
    for start in np.arange(0.0, UNTIL + seconds, seconds):
        part = EVENTS.between(start, start + seconds)
        out = run.run({s: getattr(part, s) for s in sources})
        found += out["out"].to_pylist() if "out" in out else []
    return found


def rows(found, *columns):
    return Counter(tuple(row[c] for c in columns) for row in found)


def test_of_fifty_events_one_is_a_person_and_three_are_auctions():
    assert (EVENTS.persons.num_rows, EVENTS.auctions.num_rows) == (120, 360)
    assert EVENTS.bids.num_rows == 6_000 - 480
    again = generate(6_000, rate=150.0, seed=3)
    assert again.bids == EVENTS.bids
    known = dict(zip(EVENTS.auctions["auction"].to_pylist(), EVENTS.auctions["at"].to_pylist(), strict=True))
    first = [
        known[a] <= at
        for a, at in zip(EVENTS.bids["auction"].to_pylist(), EVENTS.bids["at"].to_pylist(), strict=True)
    ]
    assert np.mean(first) > 0.99  # bids go to auctions that are open (but for the very first)


def test_conversion_and_selection():
    assert rows(answers("q1"), "auction", "bidder", "euros") == oracle.q1(EVENTS)
    assert rows(answers("q2"), "auction", "price") == oracle.q2(EVENTS)


def test_hot_items():
    found = rows(answers("q5"), "end", "auction", "n")
    assert max(found.values()) == 1
    assert set(found) <= oracle.q5(EVENTS, UNTIL)
    assert set(found) >= oracle.q5(
        EVENTS, UNTIL - 2 * 1.5
    )  # what the last batch closes is given out by the next


def test_new_users():
    found = rows(answers("q8"), "person", "start")
    assert found == Counter(oracle.q8(EVENTS))


def test_visits():
    found = rows(answers("q11"), "bidder", "start", "rows")
    assert set(found) <= oracle.q11(EVENTS, UNTIL)
    assert set(found) >= oracle.q11(EVENTS, UNTIL - 2 * 1.5)


@pytest.mark.spark
@pytest.mark.long
def test_structured_streaming_gives_the_same(spark, tmp_path):
    import pyarrow.parquet as pq

    from penstock_lab.nexmark import spark as written

    streams = {}
    for name in COLUMNS:
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(getattr(EVENTS, name), folder / "1.parquet")
        # A last row far ahead closes what is open.
        last = {c: [-1.0 if c != "at" else UNTIL + 10 * WINDOW] for c in COLUMNS[name]}
        pq.write_table(pa.table(last).cast(getattr(EVENTS, name).schema), folder / "2.parquet")
        os.utime(folder / "1.parquet", (1, 1))  # Spark takes files by their age
        schema = ", ".join(f"{c} {'double' if t == 'float64' else 'long'}" for c, t in COLUMNS[name].items())
        streams[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    found = {}
    for query, (make, sources) in written.QUERIES.items():
        run = written.start(
            make(*(streams[s] for s in sources)), str(tmp_path / f"ck-{query}"), tmp_path / f"out-{query}"
        )
        run.awaitTermination()
        found[query] = [r.asDict() for r in spark.read.parquet(str(tmp_path / f"out-{query}")).collect()]
    real = [r for r in found["q1"] if r["auction"] >= 0]
    assert rows(real, "auction", "bidder", "euros") == oracle.q1(EVENTS)
    assert rows([r for r in found["q2"] if r["auction"] >= 0], "auction", "price") == oracle.q2(EVENTS)
    assert set(rows(found["q5"], "end", "auction", "n")) >= oracle.q5(EVENTS, UNTIL)
    assert set(rows([r for r in found["q8"] if r["person"] >= 0], "person", "start")) == oracle.q8(EVENTS)
    # Spark's times are whole microseconds.
    visits = {(b, n): s for b, s, n in rows(found["q11"], "bidder", "start", "rows")}
    wanted = {(b, n): s for b, s, n in oracle.q11(EVENTS, float("inf"))}
    assert {key: visits.get(key) for key in wanted} == pytest.approx(wanted, abs=2e-6)


def test_policies_are_compared_on_what_is_left_after_the_start():
    static, small = (
        simulated(PolicyTrial("q5", "steps", policy, 0.8, 600.0))
        for policy in ("Static", "Static:executors=8")
    )
    assert static.late <= 0.05 < small.late
    assert static.core_seconds == pytest.approx(64 * 300.0)
    assert static.changes == 0


def test_steps_to_converge_are_the_changes_after_a_step_of_the_load():
    pausing, still, cosine = (
        simulated(PolicyTrial("q11", load, policy, 0.35, 900.0))
        for load, policy in (("steps", "Ds2"), ("steps", "Static"), ("cosine", "Ds2"))
    )
    assert [at for at, _ in families.step_times(900.0, SEED) if at >= START]
    assert 1 <= pausing.steps <= pausing.changes
    assert still.steps == 0
    assert np.isnan(cosine.steps)  # this load has no steps to converge after


def test_steps_of_the_live_load_are_found_on_the_clock_of_the_journal():
    # A journal that began 10 s after the load: its second 65 is the load's 75.
    assert changes_to_converge([61.0, 65.0, 95.0], offset=10.0) == pytest.approx(1.5)


def test_live_rows_are_bids_at_the_times_of_the_load_and_their_runs_are_told_with_spread(tmp_path):
    from penstock_lab.benches.nexmark_live import FIGURES, POLICIES, loads, tell
    from penstock_lab.cell_runs import Cell, CellRuns
    from penstock_lab.results import ResultsPage
    from penstock_lab.trials.autoscale import AutoscaleTrial, lines_of

    made = loads()
    lines = lines_of(AutoscaleTrial("", "ds2", "", "", nexmark="q11"), made.arrivals)
    assert len(lines) == len(made.arrivals)
    assert float(lines[-1].split(",")[3]) == pytest.approx(made.arrivals[-1], abs=1e-6)
    kept, cells = CellRuns(tmp_path), [Cell("live", "q11", policy) for policy in POLICIES]
    kept.fill(cells[:1], lambda _, number: dict.fromkeys(FIGURES, 40.0 + 10.0 * number))
    few = ResultsPage("", "")
    tell(few, kept, cells)
    assert few.tables[0].rows == [[POLICIES[0], *["50 ± 10"] * len(FIGURES)]]
    assert not few.claims[0].holds
    kept.fill(cells, lambda _, number: dict.fromkeys(FIGURES, 40.0 + 10.0 * number))
    page = ResultsPage("", "")
    tell(page, kept, cells)
    assert page.claims[0].holds
