"""Wrong clocks in flows: a time to live goes by the event times that are believed, whatever the layout."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_count
from penstock.testing.flow_run import start_in_process

Y2013, Y2200, DAY = 1_360_000_000.0, 7_260_000_000.0, 86_400.0
AHEAD = "t is too far ahead of the stream"


@operator(keys="k", state={"n": int}, output={"k": int, "t": float, "n": int}, ttl=("t", 60.0))
def count(rows, state, output):
    output.emit({"k": rows["k"], "t": rows["t"], "n": running_count(rows.slots, state["n"])})


def graph(**given):
    made = Graph("clocks")
    made.source("rows", {"k": int, "t": float}).through(count, name="count", **given).sink("out")
    return made


def table(rows):
    keys, times = pa.array([k for k, _ in rows], pa.int64()), pa.array([t for _, t in rows], pa.float64())
    return {"rows": pa.table({"k": keys, "t": times})}


def counted(batches, **given):
    """What a run in this process gives out, and what it puts aside."""
    reference = Reference(graph(**given))
    out = [reference.run(table(rows)).get("out") for rows in batches]
    return [row for some in out if some is not None for row in some.to_pylist()], reference


def steady(begin=Y2013, batches=10, keys=3):
    return [[(k, begin + 10.0 * b + k) for k in range(keys)] for b in range(batches)]


@pytest.mark.parametrize("at", [0, 4])
def test_one_tuple_far_ahead_makes_no_key_expire(at):
    batches = steady()
    right, _ = counted(batches)
    assert max(row["n"] for row in right) == 10
    dirty = [list(rows) for rows in batches]
    dirty[at].insert(1, (1, Y2200))
    seen, reference = counted(dirty)
    assert seen == right
    assert reference.dead == [("count", AHEAD)]


def test_a_gap_that_the_stream_confirms_lets_keys_expire_and_counts_on():
    batches = [*steady(keys=12), *steady(Y2013 + 40 * DAY, keys=11), [(11, Y2013 + 40 * DAY)]]
    seen, reference = counted(batches)
    assert reference.dead == []
    assert [row["n"] for row in seen][-12:] == [20] * 11 + [1]


def test_times_that_are_no_times_are_put_aside():
    _, reference = counted([[(1, float("inf")), (1, -float("inf")), (1, 1e300), (1, Y2013)]])
    assert reference.dead == [("count", "t is no time")] * 3


def test_how_far_ahead_is_believed_can_be_said():
    batches = [[(1, Y2013)], [(1, Y2013 + 2 * DAY)]]
    assert counted(batches)[1].dead == [("count", AHEAD)]
    assert counted(batches, ahead=3 * DAY)[1].dead == []
    with pytest.raises(PenstockError, match="ahead; give a positive number"):
        graph(ahead=-1.0)


PLACES = st.sampled_from([Y2013] * 6 + [Y2013 + 3 * DAY, Y2200, 0.0])
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.builds(lambda a, b: a + b, PLACES, st.integers(0, 90))), max_size=25
)


def read(folder):
    return [row for f in sorted(folder.glob("*.parquet")) for row in pq.read_table(f).to_pylist()]


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(ROWS, min_size=1, max_size=4), replicas=st.integers(1, 3))
def test_every_tuple_is_given_out_or_put_aside_whatever_the_layout(batches, replicas, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flow")
    expected, reference = counted(batches)
    run = start_in_process(graph(), folder)
    region = next(iter(run.plan.regions))
    for number, rows in enumerate(batches):
        if number == 1:
            run.rescale(replicas={region: replicas})
        run.feed(table(rows), partitions=1)
    run.finish()
    out, dead = read(folder / "out" / "out"), read(folder / "dead" / "count")
    assert len(out) + len(dead) == sum(len(rows) for rows in batches)
    if replicas == 1:  # with more, what came first is known for each replica by itself
        assert sorted(map(str, out)) == sorted(map(str, expected))
        assert len(dead) == len(reference.dead)
    assert not list((folder / "out" / "out" / "_staging").iterdir())
    assert not list((folder / "dead" / "_staging").iterdir())


def test_a_second_look_at_a_batch_leaves_no_files_behind(tmp_path):
    run = start_in_process(graph(), tmp_path)
    for rows in [*steady(keys=12), [(0, Y2200)], *steady(Y2013 + 40 * DAY, keys=12)]:
        run.feed(table(rows))
    run.finish()
    state = {p.name for p in (tmp_path / "checkpoint" / "penstock" / "state").iterdir()}
    last, before = (run._checkpoint.read(b) for b in run._checkpoint._batches()[::-1][:2])
    assert state == {*last.files, *before.files}
    assert [row["reason"] for row in read(tmp_path / "dead" / "count")] == [AHEAD]
