"""The whole query, batch by batch, in this process: every strategy against a brute-force oracle."""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.disorder.stats import BatchStats, partition_stats
from penstock.preference.factor import factors_among
from penstock.preference.preference import Preference
from penstock.preference.splitting import StatisticSplitting
from penstock.spark.query import query_state
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.program import QueryProgram
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.engine import BatchRows, JobsEngine
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.program import Batch
from penstock.testing.frames import InProcessFrame, InProcessSession

SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("a", pa.float64()),
        ("b", pa.int64()),
        ("g", pa.string()),
        ("row", pa.int64()),
    ]
)
PREFERENCES = {
    "skyline": ps.skyline_of(ps.minimize("a"), ps.maximize("b")),
    "skyline of one value": ps.skyline_of(ps.minimize("a")),
    "with diff": ps.skyline_of(ps.minimize("a"), ps.maximize("b"), ps.diff("g")),
    "k-dominant": ps.k_dominant_of(1, ps.minimize("a"), ps.maximize("b")),
    "top-delta": ps.top_delta_of(2, ps.minimize("a"), ps.maximize("b")),
    "top-k": ps.top_k_of(2, by="a"),
}


@dataclass
class Row:
    time: int
    a: float
    b: int
    group: str


def dominates(x: Row, y: Row) -> bool:
    return x.a <= y.a and x.b >= y.b and (x.a < y.a or x.b > y.b)


def k_dominates(x: Row, y: Row, k: int) -> bool:
    better, not_worse = (x.a < y.a) + (x.b > y.b), (x.a <= y.a) + (x.b >= y.b)
    return not_worse >= k and better >= 1


def oracle(name: str, rows: list[int], data: list[Row]) -> set[int]:
    """The answer over one set of rows, by definition."""
    if name == "with diff":
        groups = {data[i].group for i in rows}
        return set().union(
            *(oracle("skyline", [i for i in rows if data[i].group == g], data) for g in groups)
        )
    if name == "skyline of one value":
        least = min(data[i].a for i in rows)
        return {i for i in rows if data[i].a == least}
    if name == "top-k":
        kth = sorted(data[i].a for i in rows)[:2][-1]
        return {i for i in rows if data[i].a <= kth}
    skyline = {i for i in rows if not any(dominates(data[j], data[i]) for j in rows)}
    if name == "skyline":
        return skyline

    def factor(i: int) -> int:
        return min(k for k in (1, 2) if not any(j != i and k_dominates(data[j], data[i], k) for j in rows))

    if name == "k-dominant":
        return {i for i in skyline if factor(i) <= 1}
    for k in (1, 2):
        chosen = {i for i in skyline if factor(i) <= k}
        if len(chosen) > 2:
            return chosen
    return skyline


def table(rows: list[Row], first: int) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([r.time for r in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
            pa.array([r.a for r in rows], pa.float64()),
            pa.array([r.b for r in rows], pa.int64()),
            pa.array([r.group for r in rows]),
            pa.array(range(first, first + len(rows)), pa.int64()),
        ],
        schema=SCHEMA,
    )


streams = st.lists(
    st.lists(
        st.builds(
            Row,
            time=st.integers(0, 60),
            a=st.integers(0, 4).map(float),
            b=st.integers(0, 4),
            group=st.sampled_from("xy"),
        ),
        max_size=12,
    ),
    min_size=1,
    max_size=6,
)


@dataclass
class Case:
    name: str
    window: int
    slide: int
    by: tuple[str, ...]
    strategy: str
    splitting: object
    disorder: object
    scales: list[tuple[int, int]]
    overlap: bool = False


@st.composite
def cases(draw):
    window = draw(st.integers(1, 12))
    return Case(
        name=draw(st.sampled_from(sorted(PREFERENCES))),
        window=window,
        slide=draw(st.integers(1, window)),
        by=draw(st.sampled_from([(), ("g",)])),
        strategy=draw(st.sampled_from(["SHARED", "SHARED", "WIN_RR", "WIN_FB", "WIN_FB_MERGE", "WIN_PLAIN"])),
        splitting=draw(st.sampled_from(["PB_RR", "TB_RR", "AS", "AS_PID", StatisticSplitting(threshold=2)])),
        disorder=draw(
            st.sampled_from(
                [ps.KSlack(), ps.FixedDelay("5 us"), ps.AdaptiveSlack(drop=0.2), ps.InOrder(ps.KSlack())]
            )
        ),
        scales=draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=6, max_size=6)),
        overlap=draw(st.booleans()),
    )


def query_of(case: Case) -> ps.PreferenceQuery:
    return ps.PreferenceQuery(
        PREFERENCES[case.name],
        time="t",
        window=f"{case.window} us",
        slide=f"{case.slide} us",
        by=case.by,
        disorder=case.disorder,
        splitting=case.splitting,
        window_strategy=case.strategy,
        pane_workers=2,
        window_workers=2,
        overlap=case.overlap,
    )


def run(case: Case, stream: list[list[Row]], folder) -> tuple[list[dict], object]:
    """All windows given out, in order, and the last state."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    outputs = QueryOutputs(
        OutputFolder.made(folder, "output"), OutputFolder.made(folder / "dead", "dead-letter")
    )
    program = QueryProgram(query_of(case), SCHEMA, outputs, 1.0)
    state, results, first = program.first_state(), [], 0

    def batch_of(number, rows, prefix):
        session = InProcessSession()
        return Batch(number, rows, JobsEngine(session), session, state, str(folder / "state"), prefix, 0.0)

    def rows_of(outcome):
        return [row for o in outcome.outputs for row in pq.read_table(folder / o.staged).to_pylist()]

    for number, rows in enumerate(stream):
        half = len(rows) // 2
        parts = [[table(rows[:half], first)], [table(rows[half:], first + half)]]
        batch = batch_of(number, BatchRows(frame=InProcessFrame(parts)), f"{number}")
        program.target = case.scales[number % len(case.scales)]
        outcome = program.run_batch(batch)
        state, first = outcome.state, first + len(rows)
        results.append(rows_of(outcome))
    left = program.settled(batch_of(len(stream) - 1, BatchRows(), "settled"))
    if left is not None:
        assert case.overlap
        results.append(rows_of(left))
        state = left.state
    return results, state


def expected(case: Case, stream: list[list[Row]]) -> dict[tuple[int, str], set[int]]:
    """Windows by brute force over the rows that were not late, and the batch in which each is due."""
    disorder = case.disorder
    state, on_time, first = disorder.start(), [], 0
    due: dict[int, int] = {}
    data = [row for rows in stream for row in rows]
    for number, rows in enumerate(stream):
        punctuation = state.punctuation
        on_time += [first + i for i, r in enumerate(rows) if punctuation is None or r.time >= punctuation]
        half = len(rows) // 2
        stats = BatchStats()
        for part in (rows[:half], rows[half:]):
            stats = stats.merge(
                partition_stats([r.time for r in part], seen=state.t_max, punctuation=punctuation)
            )
        state = disorder.step(state, stats)
        first += len(rows)
        for start in range(-case.window + 1, 61):
            if (
                start % case.slide == 0
                and state.punctuation is not None
                and start + case.window <= state.punctuation
            ):
                due.setdefault(start, number)
    answers: dict[tuple[int, str], set[int]] = {}
    for start in sorted(due):
        inside = [i for i in on_time if start <= data[i].time < start + case.window]
        groups = sorted({data[i].group for i in inside}) if case.by else [""]
        for group in groups:
            rows = [i for i in inside if not case.by or data[i].group == group]
            if rows and (answer := oracle(case.name, rows, data)):
                answers[(start, group)] = answer
    return answers


def by_window(case: Case, results: list[list[dict]]) -> dict[tuple[int, str], set[int]]:
    answers: dict[tuple[int, str], set[int]] = {}
    for row in (r for batch in results for r in batch):
        start = round(row["window_start"].timestamp() * 1e6)
        key = (start, row["g"] if case.by else "")
        found = answers.setdefault(key, set())
        assert row["row"] not in found, "a row comes twice in one window"
        found.add(row["row"])
    return answers


@settings(max_examples=150, deadline=None)
@given(case=cases(), stream=streams)
def test_windows_equal_those_of_the_oracle_under_every_strategy_and_any_rescaling(
    case, stream, tmp_path_factory
):
    results, _ = run(case, stream, tmp_path_factory.mktemp("run"))
    assert by_window(case, results) == expected(case, stream)


@settings(max_examples=40, deadline=None)
@given(case=cases(), stream=streams)
def test_windows_come_in_order_and_each_in_one_batch(case, stream, tmp_path_factory):
    results, _ = run(case, stream, tmp_path_factory.mktemp("run"))
    last = -math.inf
    for batch in results:
        starts = {row["window_start"].timestamp() for row in batch}
        assert all(start > last for start in starts)
        last = max(starts, default=last)


@settings(max_examples=30, deadline=None)
@given(case=cases(), stream=streams)
def test_a_batch_that_is_run_again_gives_the_same_result_and_state(case, stream, tmp_path_factory):
    first, state = run(case, stream, tmp_path_factory.mktemp("one"))
    again, other = run(case, stream, tmp_path_factory.mktemp("two"))
    key = lambda r: (r["window_start"], r["row"])  # noqa: E731
    assert [sorted(b, key=key) for b in first] == [sorted(b, key=key) for b in again]
    assert state["disorder"] == other["disorder"]
    # The same panes are open. Into how many parts one is cut goes by the load of the workers, which is measured.
    assert {p[1] for p in state["parts"]} == {p[1] for p in other["parts"]}


def test_state_stays_bounded_however_long_the_stream(tmp_path):
    case = Case("skyline", 10, 2, (), "SHARED", "AS_PID", ps.KSlack(), [(2, 2)])
    rng = np.random.default_rng(1)
    sizes = []
    program_stream = [
        [Row(int(t), float(rng.integers(9)), int(rng.integers(9)), "x") for t in range(10 * k, 10 * k + 10)]
        for k in range(60)
    ]
    _, state = run(case, program_stream[:20], tmp_path / "short")
    sizes.append(len(state["parts"]))
    _, state = run(case, program_stream, tmp_path / "long")
    sizes.append(len(state["parts"]))
    assert sizes[1] <= sizes[0]
    assert len(state["pane_times"]) <= 20


@pytest.mark.parametrize("most", [2**31, 2**32])  # the latter: as earlier versions went on
@pytest.mark.parametrize("name", ["skyline", "top-k"])
def test_ids_of_parts_begin_again_where_there_are_no_more(tmp_path, monkeypatch, name, most):
    case = Case(name, 10, 2, (), "SHARED", "AS_PID", ps.KSlack(), [(2, 2)])
    rng = np.random.default_rng(2)
    stream = [
        [Row(int(t), float(rng.integers(9)), int(rng.integers(9)), "x") for t in range(10 * k, 10 * k + 10)]
        for k in range(6)
    ]
    right, _ = run(case, stream, tmp_path / "right")
    monkeypatch.setattr(query_state, "MOST_PARTS", most, raising=False)
    first = QueryProgram.first_state
    monkeypatch.setattr(QueryProgram, "first_state", lambda self: {**first(self), "next_part": 2**31 - 9})
    results, state = run(case, stream, tmp_path / "over")
    assert by_window(case, results) == by_window(case, right)
    assert len(by_window(case, right)) > 10
    assert (state["next_part"] > 2**31) == (most > 2**31)


@pytest.mark.parametrize("name", ["k-dominant", "top-delta"])
def test_the_factors_of_a_single_window_are_found_by_all_window_workers(tmp_path, monkeypatch, name):
    asked = []

    def noted(points, rows):
        asked.append((len(points), len(rows)))
        return factors_among(points, rows)

    monkeypatch.setattr("penstock.spark.query.window_tasks.factors_among", noted)
    case = Case(name, 10, 10, (), "SHARED", "PB_RR", ps.FixedDelay("1 us"), [(1, 4)])
    stream = [[Row(t % 10, float(t), t, "x") for t in range(100)], [Row(25, 0.0, 0, "x")]]
    results, _ = run(case, stream, tmp_path)
    assert by_window(case, results) == expected(case, stream)
    assert asked == [(100, 25)] * 4


@pytest.mark.parametrize("disorder", [ps.KSlack(), ps.InOrder(ps.KSlack())])
def test_in_order_processing_holds_rows_that_out_of_order_processing_has_reduced(tmp_path, disorder):
    case = Case("skyline of one value", 10, 10, (), "SHARED", "PB_RR", disorder, [(1, 1)])
    stream = [[Row(t, float(t), 0, "x") for t in range(9)]]
    _, state = run(case, stream, tmp_path)
    held = sum(part[5] for part in state["parts"])
    assert held == (9 if isinstance(disorder, ps.InOrder) else 1)


class WithTolerance(Preference):
    """A user's preference with a parameter of the object and one of the class."""

    attributes = (ps.minimize("x"),)
    strict = False

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance

    def select(self, points):
        return np.flatnonzero(points[:, 0] <= points[:, 0].min(initial=np.inf) + self.tolerance)

    def merge(self, left, right):
        kept = self.select(np.vstack([left, right]))
        return kept[kept < len(left)], kept[kept >= len(left)] - len(left)


class Strict(WithTolerance):
    strict = True


def test_the_parameters_of_a_users_preference_are_part_of_the_identity(tmp_path):
    def identity(preference):
        query = ps.PreferenceQuery(preference, time="t", window="1 second")
        outputs = QueryOutputs(
            OutputFolder.made(tmp_path, "output"), OutputFolder.made(tmp_path, "dead-letter")
        )
        return QueryProgram(query, SCHEMA, outputs, 1.0).identity

    Checkpoint(tmp_path / "ck", identity(WithTolerance(0.5))).close()
    Checkpoint(tmp_path / "ck", identity(WithTolerance(0.5))).close()
    with pytest.raises(PenstockError, match="its preference parameters is"):
        Checkpoint(tmp_path / "ck", identity(WithTolerance(0.6)))
    assert identity(Strict(0.5))["preference parameters"] == {"strict": True, "tolerance": 0.5}
