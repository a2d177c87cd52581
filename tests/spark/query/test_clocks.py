"""Wrong clocks in a whole query, in this process: windows equal those over the rows that are believed."""

from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.belief import DAY
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.program import QueryProgram
from penstock.spark.runtime.engine import BatchRows, JobsEngine
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.program import Batch
from penstock.testing.frames import InProcessFrame, InProcessSession

SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("a", pa.float64())])
SECOND, HOUR = 1_000_000, 3_600_000_000
Y1970, Y2013, NOW, Y2200 = 5 * SECOND, 1_360_000_000 * SECOND, 1_790_000_000 * SECOND, 7_260_000_000 * SECOND
AHEAD, BEHIND = "t is too far ahead of the stream", "t is too far behind the stream"


@dataclass
class Seen:
    """What a run came to."""

    windows: dict[int, list[float]] = field(default_factory=dict)
    dead: list[tuple[int, str]] = field(default_factory=list)
    state: dict = field(default_factory=dict)

    @property
    def totals(self):
        return self.state["totals"]


def run(folder, batches, now=NOW, parts=2, **options) -> Seen:
    """Rows as (time, value); windows are of one second and hold their least values."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state").mkdir()
    outputs = QueryOutputs(
        OutputFolder.made(folder, "output"), OutputFolder.made(folder / "dead", "dead-letter")
    )
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("a")),
        time="t",
        window="1 second",
        pane_workers=2,
        window_workers=2,
        **options,
    )
    program = QueryProgram(query, SCHEMA, outputs, 1.0)
    seen = Seen(state=dict(program.first_state()))
    for number, rows in enumerate(batches):
        cuts = np.linspace(0, len(rows), parts + 1).astype(int)
        pieces = [rows[a:b] for a, b in pairwise(cuts)]
        frame = InProcessFrame([[_table(piece)] for piece in pieces])
        batch = Batch(
            number,
            BatchRows(frame=frame),
            JobsEngine(InProcessSession()),
            InProcessSession(),
            seen.state,
            str(folder / "state"),
            f"{number:012d}-abcdef",
            (now[number] if isinstance(now, list) else now) / 1e6,
        )
        outcome = program.run_batch(batch)
        seen.state = outcome.state
        for output in outcome.outputs:
            base = folder if output.folder == "output" else folder / "dead"
            for row in pq.read_table(base / output.staged).to_pylist():
                time = round(row["t"].timestamp() * 1e6)
                if "reason" in row:
                    seen.dead.append((time, row["reason"]))
                else:
                    seen.windows.setdefault(time // SECOND, []).append(row["a"])
        kept = {o.staged for o in outcome.outputs}
        assert {f"_staging/{p.name}" for p in (folder / "dead" / "_staging").iterdir()} <= kept | _old(
            folder, number
        )
    return seen


def _old(folder, number):
    return {
        f"_staging/{p.name}" for p in (folder / "dead" / "_staging").iterdir() if int(p.name[:12]) < number
    }


def _table(rows):
    stamps = pa.array([t for t, _ in rows], pa.int64()).cast(SCHEMA.field("t").type)
    return pa.record_batch([stamps, pa.array([a for _, a in rows], pa.float64())], schema=SCHEMA)


def stream(begin, seconds=20, batches=4):
    """Ten rows a second, in order."""
    rows = [(begin + i * SECOND // 10, float(i % 10)) for i in range(10 * seconds)]
    return [rows[i::1][: len(rows) // batches] for i in range(0, len(rows), len(rows) // batches)]


def least(batches, until):
    """The windows of one second that end before a time, each with its least value."""
    rows = [row for batch in batches for row in batch]
    seconds = sorted({t // SECOND for t, _ in rows if (t // SECOND + 1) * SECOND <= until})
    return {s: [min(a for t, a in rows if t // SECOND == s)] for s in seconds}


@pytest.mark.parametrize("begin", [Y1970, Y2013, NOW], ids=["1970", "2013", "now"])
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize(("wrong", "reason"), [(Y2200, AHEAD), (0, BEHIND)])
def test_one_wrong_clock_changes_no_window(tmp_path, begin, at, wrong, reason):
    if wrong == 0 and begin == Y1970:
        wrong = 1  # is within the limits here
    batches = stream(begin)
    right = run(tmp_path / "right", batches)
    dirty = [list(b) for b in batches]
    dirty[at].insert(7, (wrong, -1.0))
    seen = run(tmp_path / "wrong", dirty)
    assert right.windows == least(batches, right.state["disorder"]["punctuation"])
    if wrong == 1:
        assert seen.totals["rows"] == right.totals["rows"] + 1
        return
    assert seen.windows == right.windows
    assert seen.dead == [(wrong, reason)]
    assert seen.totals == right.totals | {"rows": 201, "bad": 1}
    assert seen.state["disorder"] == right.state["disorder"]


def test_a_gap_that_the_stream_confirms_costs_no_row(tmp_path):
    before, after = stream(Y2013), stream(Y2013 + 3 * HOUR)
    seen = run(tmp_path / "a", [*before, *after], ahead="1 hour")
    assert seen.windows == least([*before, *after], seen.state["disorder"]["punctuation"])
    assert seen.dead == []
    middle = run(tmp_path / "b", [[*before[0], *after[0]], after[1]], ahead="1 hour", parts=1)
    assert middle.dead == []
    assert middle.totals["late"] == 0


def test_a_live_source_goes_on_after_a_pause_with_its_first_row(tmp_path):
    later = NOW + 50 * HOUR
    seen = run(tmp_path, [[(NOW, 1.0)]], now=NOW)
    assert seen.dead == []
    assert seen.state["belief"]["live"]
    for row in (later, later + 30 * HOUR):
        again = run(tmp_path / str(row), [[(NOW, 1.0)], [(row, 1.0)]], now=[NOW, later])
        assert [t for t, _ in again.dead] == ([row] if row > later + DAY else [])


def test_a_fixed_delay_longer_than_a_day_is_waited_for(tmp_path):
    rows = [[(Y2013 + 40 * 24 * HOUR, 1.0)] * 12, [(Y2013, 1.0)]]
    assert run(tmp_path / "a", rows, disorder=ps.FixedDelay("60 days")).dead == []
    assert run(tmp_path / "b", rows).dead == [(Y2013, BEHIND)]
    assert run(tmp_path / "c", rows, behind="60 days").dead == []


ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 0, 2 * HOUR, 26 * HOUR, Y2200 - Y2013, -30 * HOUR, -Y2013]),
        st.integers(0, 40),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(ROWS, min_size=1, max_size=5),
    parts=st.integers(1, 3),
    disorder=st.sampled_from([ps.KSlack(), ps.AdaptiveSlack(0.2), ps.FixedDelay("3 seconds"), ps.InOrder()]),
    strategy=st.sampled_from(["SHARED", "WIN_RR", "WIN_PLAIN"]),
)
def test_every_row_is_used_late_or_dead(batches, parts, disorder, strategy, tmp_path_factory):
    place = count()
    made = [
        [(Y2013 + shift + step * SECOND // 4, float(next(place))) for shift, step in batch]
        for batch in batches
    ]
    seen = run(tmp_path_factory.mktemp("run"), made, parts=parts, disorder=disorder, window_strategy=strategy)
    totals, disorder_state = seen.totals, seen.state["disorder"]
    rows = [row for batch in made for row in batch]
    assert totals["rows"] == len(rows)
    assert totals["bad"] == len(seen.dead)
    used = disorder_state["rows"]  # those that were believed
    assert used == len(rows) - len(seen.dead)
    assert disorder_state["slack"] <= max(DAY, SECOND)
    dead = {t for t, _ in seen.dead}
    # Rows of a second of which not one is dead or late: its window holds the least of them.
    if totals["late"] == 0 and disorder_state["punctuation"] is not None:
        alive = [[r for r in batch if r[0] not in dead] for batch in made]
        mixed = {t // SECOND for t in dead}
        whole = {s: v for s, v in least(alive, disorder_state["punctuation"]).items() if s not in mixed}
        assert {s: seen.windows.get(s) for s in whole} == whole
