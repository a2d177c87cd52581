"""A slack by recall: what answers lose is counted exactly, and the waiting follows it."""

import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.aggregates import count
from penstock.core.errors import PenstockError
from penstock.spark.query import judging
from penstock.spark.runtime.folders import OutputFolder
from penstock.testing.query_run import start_query_in_process

SCHEMA = pa.schema(
    [("t", pa.float64()), ("a", pa.float64()), ("b", pa.float64()), ("g", pa.int64()), ("row", pa.int64())]
)
PREFERENCES = {
    "skyline": ps.skyline_of(ps.minimize("a"), ps.minimize("b")),
    "with diff": ps.skyline_of(ps.minimize("a"), ps.minimize("b"), ps.diff("g")),
    "top-k": ps.top_k_of(3, by="a"),
}


def table(rows):
    columns = [pa.array([row[i] for row in rows], SCHEMA.field(i).type) for i in range(len(SCHEMA))]
    return pa.table(columns, schema=SCHEMA)


def best(name, rows):
    """The answer over one set of rows, by definition."""
    if name == "with diff":
        groups = {r[3] for r in rows}
        return set().union(*(best("skyline", [r for r in rows if r[3] == g]) for g in groups))
    if name == "top-k":
        last = sorted(r[1] for r in rows)[:3][-1] if rows else 0
        return {r for r in rows if r[1] <= last}
    return {
        r
        for r in rows
        if not any(o[1] <= r[1] and o[2] <= r[2] and (o[1] < r[1] or o[2] < r[2]) for o in rows)
    }


rows_of_a_batch = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 4), st.integers(0, 4), st.integers(0, 1)), max_size=10
)


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(sorted(PREFERENCES)),
    by=st.sampled_from([(), ("g",)]),
    slide=st.integers(1, 4),
    overlap=st.booleans(),
    restart=st.integers(0, 7),
    stream=st.lists(rows_of_a_batch, min_size=3, max_size=7),
)
@example(
    name="skyline",
    by=(),
    slide=1,
    overlap=True,
    restart=1,
    stream=[[(0, 0, 0, 0), (1, 0, 0, 0)], [(0, 0, 0, 0)], []],
)
def test_what_answers_lose_is_counted_as_by_brute_force(
    name, by, slide, overlap, restart, stream, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("run")
    query = ps.PreferenceQuery(
        PREFERENCES[name], "t", "4 seconds", f"{slide} seconds", by=by,
        disorder=ps.AdaptiveSlack(recall=0.5), pane_workers=2, window_workers=2, overlap=overlap,
    )  # fmt: skip
    run = start_query_in_process(query, SCHEMA, folder)
    seen, judged, expected = [], None, [0, 0]

    def compare():
        """Windows that were judged since the last call, over the rows that had come by then."""
        nonlocal judged
        found = run.state["judging"]
        if found["judged"] is None:
            return
        given = pq.read_table(folder / "out").to_pylist() if any((folder / "out").glob("*.parquet")) else []
        numbers = range(-4 if judged is None else judged + 1, found["judged"] + 1)
        for window in numbers:
            inside = [r for r in seen if window * slide <= r[0] < window * slide + 4]
            kinds = sorted({r[3] for r in inside}) if by else [None]
            true = set().union(*(best(name, [r for r in inside if k is None or r[3] == k]) for k in kinds))
            there = {r["row"] for r in given if r["window_start"].timestamp() == window * slide}
            expected[0] += len(true)
            expected[1] += sum(r[4] not in there for r in true)
        judged = found["judged"]
        assert [found["rows"], found["lost"]] == expected

    for number, some in enumerate(stream):
        if number == restart:
            run.finish()
            if number:
                compare()  # what overlapped is done, and judged, at the end
            run = start_query_in_process(query, SCHEMA, folder)
        fresh = [(float(t), float(a), float(b), g, len(seen) + i) for i, (t, a, b, g) in enumerate(some)]
        seen += fresh
        run.feed(table(fresh), 2)
        compare()


def drifting(rows, bias, seed=0):
    """A stream in order of arrival with long-tailed delays; ``bias``: how much worse the slow rows are."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows) / 1000 + 10
    delay = np.minimum(rng.lognormal(-3, 1.2, rows), 5.0)
    a, b = rng.random((2, rows)) + bias * (delay > 0.2)
    order = np.argsort(t + delay, kind="stable")
    columns = [t[order], a[order], b[order], np.zeros(rows, np.int64), np.arange(rows)[order]]
    return pa.table([pa.array(c) for c in columns], schema=SCHEMA)


def second_half(query, stream, folder):
    """Recall against the windows over all rows, mean wait in seconds, both in the second half of the run."""
    run = start_query_in_process(query, SCHEMA, folder)
    waits = []
    for start in range(0, stream.num_rows, 250):
        run.feed(stream.slice(start, 250), 1)
        disorder = run.state["disorder"]
        waits.append((disorder["t_max"] - disorder["punctuation"]) / 1e6)
    answers = []
    for rows in (query.evaluate(stream), pq.read_table(folder / "out")):
        found = {}
        for end, row in zip(rows["window_end"].to_pylist(), rows["row"].to_pylist(), strict=True):
            found.setdefault(end, set()).add(row)
        answers.append(found)
    true, given = answers
    ends = sorted(given)[len(given) // 2 :]
    there = sum(len(true[e] & given[e]) for e in ends) / sum(len(true[e]) for e in ends)
    return there, float(np.mean(waits[len(waits) // 2 :]))


@pytest.mark.parametrize("place", ["folder", "store"])
def test_late_rows_are_judged_in_the_unit_of_the_time_and_wherever_they_lie(place, tmp_path, monkeypatch):
    stream, found = drifting(3_000, 0.0), []
    for unit, number in (("seconds", 1), ("milliseconds", 1000)):
        if place == "store":
            made, store = OutputFolder.made, f"memory://{uuid.uuid4().hex}"
            monkeypatch.setattr(
                OutputFolder, "made", lambda _, role, made=made, store=store: made(f"{store}/{role}", role)
            )
        query = ps.PreferenceQuery(
            ps.top_k_of(5, by="a"), "t", "500 milliseconds", unit=unit,
            disorder=ps.AdaptiveSlack(recall=0.9), pane_workers=1, window_workers=1,
        )  # fmt: skip
        run = start_query_in_process(query, SCHEMA, tmp_path / unit)
        rows = stream.set_column(0, "t", pc.multiply(stream["t"], float(number)))
        for start in range(0, rows.num_rows, 250):
            run.feed(rows.slice(start, 250), 1)
        found.append((run.state["judging"]["rows"], run.state["judging"]["lost"]))
        monkeypatch.undo()
    assert found[0] == found[1]
    assert found[0][1] > 0


def test_the_wait_follows_what_answers_lose(tmp_path):
    """Slow rows that are worse need not be waited for; slow rows that count have to be."""
    found = {}
    for bias in (0.0, 0.02):
        query = ps.PreferenceQuery(
            ps.top_k_of(20, by="a"), "t", "1 second", "500 milliseconds",
            disorder=ps.AdaptiveSlack(recall=0.95), pane_workers=1, window_workers=1,
        )  # fmt: skip
        found[bias] = second_half(query, drifting(20_000, bias), tmp_path / str(bias))
    assert 0.91 < found[0.0][0] < 0.99
    assert 0.91 < found[0.02][0] < 0.99
    assert found[0.02][1] < 0.75 * found[0.0][1], "what nobody misses is not waited for"


def test_no_more_is_kept_than_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "MOST_ROWS", 40)
    query = ps.PreferenceQuery(
        ps.top_k_of(5, by="a"), "t", "1 second", disorder=ps.AdaptiveSlack(recall=0.9), pane_workers=1, window_workers=1
    )  # fmt: skip
    run = start_query_in_process(query, SCHEMA, tmp_path)
    run._program.outputs = replace(run._program.outputs, late=None)
    stream = drifting(10_000, 0.0)
    for start in range(0, stream.num_rows, 500):
        run.feed(stream.slice(start, 500), 1)
        for file in (run.state["judging"]["answers"], run.state["judging"]["late"]):
            if file:
                held = pa.ipc.open_file(str(run._checkpoint.state_folder / file)).read_all()
                assert held.num_rows <= 40
    assert run.state["judging"]["rows"] > 40
    left = [p.name for p in (tmp_path / "out" / "_staging").iterdir()]
    assert not left, "late rows that were only compared are removed"


@pytest.mark.parametrize("options", [{"recall": 1.0}, {"recall": 0.0}, {"recall": 0.9, "drop": 0.2}])
def test_a_recall_that_makes_no_sense_is_refused(options):
    with pytest.raises(PenstockError, match="recall"):
        ps.AdaptiveSlack(**options)


def test_a_window_query_has_no_recall():
    with pytest.raises(PenstockError, match="drop"):
        ps.WindowQuery({"n": count()}, "t", "1 second", disorder=ps.AdaptiveSlack(recall=0.9))


def test_a_drop_target_is_still_called_as_before():
    """Checkpoints know a query by this text."""
    text = "AdaptiveSlack(drop=0.02, law='quantile', gain=1.0, kp=6.0, ki=0.6, kd=0.2)"
    assert repr(ps.AdaptiveSlack(drop=0.02)) == text
    assert repr(ps.AdaptiveSlack(recall=0.9)) == "AdaptiveSlack(recall=0.9)"
