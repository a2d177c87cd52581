"""Which worker gets which row."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.belief import Limits, Sighting
from penstock.core.errors import PenstockError
from penstock.preference.routing_plan import RoutingPlan
from penstock.spark.query.reports import TallyReport
from penstock.spark.query.routing import Router, check_unit, pack, unpack

panes_in_order = st.lists(st.integers(0, 5), max_size=80).map(lambda p: np.array(p, dtype=np.int64))


def plan(strategy="AS", workers=3, threshold=float("inf"), **options) -> RoutingPlan:
    return RoutingPlan(strategy, workers, tuple(range(workers)), threshold, **options)


@given(
    panes_in_order, st.sampled_from(["PB_RR", "TB_RR", "AS", "AS_PID"]), st.integers(1, 5), st.floats(1, 50)
)
def test_every_row_goes_to_a_worker_that_exists(panes, strategy, workers, threshold):
    assigned = plan(strategy, workers, threshold).assign(panes)
    assert len(assigned) == len(panes)
    assert all(0 <= w < workers for w in assigned)


@given(panes_in_order, st.integers(1, 5))
def test_without_a_threshold_a_pane_stays_on_one_worker(panes, workers):
    for strategy in ("PB_RR", "AS", "AS_PID"):
        assigned = plan(strategy, workers).assign(panes)
        assert all(len(set(assigned[panes == p])) == 1 for p in set(panes.tolist()))


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 20))
def test_a_pane_moves_on_when_its_owners_share_is_full(rows, workers, threshold):
    assigned = plan(workers=workers, threshold=float(threshold)).assign(np.zeros(rows, dtype=np.int64))
    runs = np.flatnonzero(np.diff(assigned)) + 1
    assert len(set(assigned)) == min(workers, -(-rows // threshold))
    if workers > 1:
        assert runs.tolist() == list(range(threshold, rows, threshold))


def test_rows_are_dealt_in_turn_by_tuple():
    assert plan("TB_RR", 3).assign(np.array([7, 7, 7, 7])).tolist() == [0, 1, 2, 0]


def test_a_pane_goes_on_with_its_owner_until_that_one_is_full():
    going_on = plan(workers=3, threshold=10, owners={4: (2, 7)})
    assert going_on.assign(np.full(5, 4)).tolist() == [2, 2, 2, 0, 0]


def test_an_owner_that_was_removed_is_not_asked_again():
    assert plan(workers=2, threshold=10, owners={4: (3, 1)}).assign(np.array([4]))[0] in (0, 1)


def test_input_partitions_share_the_threshold():
    assigned = plan(workers=2, threshold=10, inputs=5).assign(np.zeros(4, dtype=np.int64))
    assert assigned.tolist() == [0, 0, 1, 1]


def test_a_message_carries_its_panes():
    table, panes, offsets = unpack(pack(pa.table({"x": [1, 2, 3]}), [4, 9], [0, 1, 3]))
    assert (table["x"].to_pylist(), panes, offsets) == ([1, 2, 3], [4, 9], [0, 1, 3])


def route(rows: pa.RecordBatch, folder=None, **options):
    given_options = {
        "time": "t",
        "attributes": ("x",),
        "pane_us": 10,
        "plan": plan("PB_RR", 2),
        "punctuation": None,
        "seen": None,
        "prefix": "p",
        "dead_folder": folder,
        "late_folder": folder,
    }
    return list(Router(**given_options | options)(iter([rows])))


def rows_of(times, values):
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch({"t": stamps, "x": pa.array(values, pa.float64())})


def test_an_empty_partition_says_nothing():
    assert route(rows_of([], [])) == []


def test_a_partition_of_bad_rows_only_is_counted_and_set_aside(tmp_path):
    messages = route(rows_of([None, 5], [1.0, None]), str(tmp_path))
    assert [m["kind"][0].as_py() for m in messages] == ["tally"]
    told = messages[0]["payload"][0].as_py().decode()
    assert '"bad": 2' in told
    assert pq.read_table(next(tmp_path.iterdir()))["reason"].to_pylist() == ["t is null", "x is null"]


@pytest.mark.parametrize(("punctuation", "late"), [(None, 0), (5, 1), (6, 2)])
def test_rows_before_the_punctuation_are_late(tmp_path, punctuation, late):
    messages = route(rows_of([4, 5, 30], [1.0, 2.0, 3.0]), str(tmp_path), punctuation=punctuation)
    assert f'"late": {late},' in messages[-1]["payload"][0].as_py().decode()
    kept = sum(unpack(m["payload"][0].as_buffer())[0].num_rows for m in messages[:-1])
    assert kept == 3 - late


def test_clocks_far_from_the_stream_are_not_believed(tmp_path):
    rows = rows_of([1000, 5000, 700, 10], [1.0, 2.0, 3.0, 4.0])
    messages = route(rows, str(tmp_path), seen=1000, latest=1100, limits=Limits(100, 500))
    told = TallyReport.from_json(messages[-1]["payload"][0].as_py())
    assert (told.rows, told.bad, told.usable, told.sightings) == (4, 2, 4, (Sighting(5000, 5000, 1, 3),))
    assert (told.stats.t_max, told.stats.max_delay, told.stats.rows) == (1000, 300, 2)
    assert pq.read_table(next(tmp_path.iterdir()))["reason"].to_pylist() == [
        "t is too far ahead of the stream",
        "t is too far behind the stream",
    ]


def test_the_right_share_of_rows_is_dropped_where_they_come_one_by_one():
    """Of batches of one row each a share that is counted anew in each would drop all."""
    dropped = 0
    for seen in range(1_000_000, 1_001_000):
        *_, tally = route(rows_of([seen], [1.0]), shed=0.3, seen=seen)
        dropped += TallyReport.from_json(tally["payload"][0].as_py().decode()).shed
    assert 250 < dropped < 350


@pytest.mark.parametrize(("shed", "kept"), [(0.25, [1, 2, 3, 5, 6, 7]), (0.5, [1, 3, 5, 7])])
def test_a_share_of_the_rows_is_dropped_evenly(shed, kept):
    count = 8
    messages = route(rows_of(range(count), map(float, range(count))), plan=plan("PB_RR", 1), shed=shed)
    rows, panes, offsets = unpack(messages[0]["payload"][0].as_buffer())
    assert rows["x"].to_pylist() == [float(row) for row in kept]
    assert (panes, offsets) == ([0], [0, len(kept)])
    told = TallyReport.from_json(messages[-1]["payload"][0].as_py().decode())
    assert (told.rows, told.shed) == (count, count - len(kept))


@given(
    panes_in_order,
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 3),
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=3),
)
def test_rows_go_where_counting_them_one_by_one_sends_them(panes, workers, threshold, inputs, owners):
    """A pane stays with its owner until its share is full, and moves on with every further share."""
    made = plan("AS", workers, float(threshold), inputs=inputs, owners=owners)
    new, so_far, expected = 1 + max(owners, default=-1), {}, []
    for pane in panes.tolist():
        owner, held = owners.get(pane, (-1, 0))
        known = 0 <= owner < workers
        left = threshold - held if known else threshold
        room = max(left / inputs, 1.0) if left > 0 else 0.0
        share = max(threshold / inputs, 1.0)
        count = so_far.get(pane, 0)
        so_far[pane] = count + 1
        turns = 0 if count < room else int((count - room) // share) + 1
        expected.append(((owner if known else (pane - new) % workers) + turns) % workers)
    assert made.assign(panes).tolist() == expected


def test_messages_say_from_whom_and_in_which_order_they_come(tmp_path, monkeypatch):
    """A partition of several chunks: numbers go on, figures add up, rows set aside are all there."""
    monkeypatch.setattr("penstock.spark.query.routing.CHUNK_ROWS", 2)
    monkeypatch.setattr("penstock.spark.query.routing.partition_id", lambda: 3)
    times = [31, 32, 4, 5, 33, 6, 41]
    chunks = [rows_of(times[at : at + 2], [float(at)] * len(times[at : at + 2])) for at in range(0, 7, 2)]
    router = Router(
        time="t",
        attributes=("x",),
        pane_us=10,
        plan=RoutingPlan("PB_RR", 2, (1, 0)),
        punctuation=10,
        seen=30,
        prefix="p",
        late_folder=str(tmp_path),
    )
    *rows, tally = list(router(iter(chunks)))
    about = [tuple(m[name][0].as_py() for name in ("worker", "kind", "source", "number")) for m in rows]
    assert about == [(1, "rows", 3, 0), (1, "rows", 3, 1), (0, "rows", 3, 2)]
    sent = [unpack(m["payload"][0].as_buffer()) for m in rows]
    assert [(table.num_rows, panes, offsets) for table, panes, offsets in sent] == [
        (2, [3], [0, 2]),
        (1, [3], [0, 1]),
        (1, [4], [0, 1]),
    ]
    assert tuple(tally[name][0].as_py() for name in ("worker", "kind", "source", "number")) == (
        1,
        "tally",
        3,
        3,
    )
    told = TallyReport.from_json(tally["payload"][0].as_py().decode())
    assert (told.rows, told.late, told.bad, told.shed) == (7, 3, 0, 0)
    assert (told.stats.late, told.stats.t_max, told.stats.max_delay) == (3, 41, 28)
    assert 0 <= told.seconds < 600
    assert pq.read_table(told.late_file)["t"].cast(pa.int64()).to_pylist() == [4, 5, 6]
    assert "p-3-" in told.late_file


def test_times_are_read_in_their_unit():
    batch = pa.record_batch({"t": pa.array([2, 3], pa.int64()), "x": [1.0, 2.0]})
    (message, _) = route(batch, pane_us=1_000_000, unit="seconds", plan=plan("PB_RR", 1))
    assert unpack(message["payload"][0].as_buffer())[1] == [2, 3]
    (message, _) = route(batch, pane_us=1_000, unit="milliseconds", plan=plan("PB_RR", 1))
    assert unpack(message["payload"][0].as_buffer())[1] == [2, 3]


def test_partial_results_travel_instead_of_rows():
    def halved(rows, panes):
        return rows.slice(0, 1), panes[:1] + 4

    (message, _) = route(rows_of([4, 5], [1.0, 2.0]), lift=halved, plan=plan("PB_RR", 1))
    rows, panes, _ = unpack(message["payload"][0].as_buffer())
    assert (rows["x"].to_pylist(), panes) == ([1.0], [4])


def test_a_unit_that_is_none_is_told_with_those_there_are():
    with pytest.raises(PenstockError, match=r"unit of time.*'hours'.*milliseconds"):
        check_unit("hours")


def test_shedding_goes_on_from_chunk_to_chunk(monkeypatch):
    """Of a partition in chunks of one row the same rows are dropped as of one in a single chunk."""

    def kept():
        *rows, tally = route(rows_of(range(8), map(float, range(8))), plan=plan("PB_RR", 1), shed=0.25)
        values = [unpack(m["payload"][0].as_buffer())[0]["x"].to_pylist() for m in rows]
        return [x for some in values for x in some], TallyReport.from_json(
            tally["payload"][0].as_py().decode()
        ).shed

    whole = kept()
    monkeypatch.setattr(
        "penstock.spark.query.routing.gathered",
        lambda batches, _: (b.slice(r, 1) for b in batches for r in range(8)),
    )
    assert kept() == whole == ([1.0, 2.0, 3.0, 5.0, 6.0, 7.0], 2)


def test_each_worker_gets_its_own_rows_alone():
    messages = route(rows_of([1, 11, 21, 2, 12, 31], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), plan=plan("PB_RR", 3))
    sent = {m["worker"][0].as_py(): unpack(m["payload"][0].as_buffer()) for m in messages[:-1]}
    assert {worker: rows["x"].to_pylist() for worker, (rows, _, _) in sent.items()} == {
        0: [0.0, 3.0, 5.0],
        1: [1.0, 4.0],
        2: [2.0],
    }
    assert {worker: (panes, offsets) for worker, (_, panes, offsets) in sent.items()} == {
        0: ([0, 3], [0, 2, 3]),
        1: ([1], [0, 2]),
        2: ([2], [0, 1]),
    }


def test_the_share_of_an_input_is_its_part_of_the_room_and_at_least_a_row_while_there_is_room():
    def moves(threshold, inputs, held=0):
        owners = {0: (0, held)} if held else {}
        there = plan("AS", 2, threshold, inputs=inputs, owners=owners)
        return there.assign(np.zeros(6, dtype=np.int64)).tolist()

    assert moves(3, 1) == [0, 0, 0, 1, 1, 1]
    assert moves(4, 2) == [0, 0, 1, 1, 0, 0]
    assert moves(3, 8) == [0, 1, 0, 1, 0, 1], "a row each, not two"
    assert moves(3, 1, held=3) == [1, 1, 1, 0, 0, 0], "no room, no row"
