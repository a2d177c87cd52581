import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.preference.scheduling import OpenPane, assign, handed_over


def alg_1(threshold, panes, workers, loads):
    """PPQ's Alg. 1, row by row, ties by rotation."""
    owner, sent, out, turn = {}, {}, [], 0
    loads = list(loads)
    for pane in panes:
        if pane not in owner or sent[pane, owner[pane]] >= threshold:
            owner[pane] = min(range(workers), key=lambda w: (loads[w], (w - turn) % workers))
            turn = (owner[pane] + 1) % workers
        sent[pane, owner[pane]] = sent.get((pane, owner[pane]), 0) + 1
        loads[owner[pane]] += 1
        out.append(owner[pane])
    return out


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-2, 3), max_size=60),
    st.integers(1, 4),
    st.integers(1, 9),
    st.lists(st.integers(0, 9), min_size=4, max_size=4),
)
def test_rows_go_where_algorithm_1_sends_them(panes, workers, threshold, loads):
    loads = loads[:workers]
    got = assign("AS", threshold, np.array(panes, dtype=np.int64), {}, loads)
    assert got.workers.tolist() == alg_1(threshold, panes, workers, loads)
    assert sum(got.loads) == sum(loads) + len(panes)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=60),
    st.integers(1, 59),
    st.sampled_from(["PB_RR", "TB_RR", "AS"]),
)
def test_a_stream_in_two_batches_goes_where_one_batch_would(panes, cut, strategy):
    panes = np.array(panes, dtype=np.int64)
    cut = min(cut, len(panes) - 1)
    whole = assign(strategy, 3, panes, {}, [0, 0, 0])
    first = assign(strategy, 3, panes[:cut], {}, [0, 0, 0])
    second = assign(strategy, 3, panes[cut:], first.panes, first.loads, first.rotation)
    assert np.concatenate([first.workers, second.workers]).tolist() == whole.workers.tolist()
    assert second.panes == whole.panes


def test_panes_in_turn_and_rows_in_turn():
    panes = np.array([0, 1, 2, 3, 3])
    assert assign("PB_RR", 1, panes, {}, [0, 0]).workers.tolist() == [0, 1, 0, 1, 1]
    assert assign("TB_RR", 1, panes, {}, [0, 0]).workers.tolist() == [0, 1, 0, 1, 0]


def test_an_infinite_threshold_never_splits():
    panes = np.array([4] * 50)
    held = assign("AS", float("inf"), panes, {}, [0, 0, 0]).panes[4]
    assert held.partitions == 1


def test_removed_workers_hand_their_panes_to_the_least_loaded_and_close_their_partitions():
    open_panes = {1: OpenPane(0, (5, 0, 2)), 2: OpenPane(2, (0, 0, 7)), 3: OpenPane(1, (4, 4, 0))}
    after, forced = handed_over(open_panes, removed=[0], loads=[9, 5, 3])
    assert after[1].owner == 2
    assert after[1].sizes == (0, 0, 2), "the closed partition counts as zero"
    assert after[2] == open_panes[2]
    assert after[3].owner == 1
    assert forced == {0: [1, 3]}


def test_a_pane_that_got_no_row_since_workers_came_is_handed_over():
    after, forced = handed_over({0: OpenPane(0, (5,))}, [0, 1], [0, 0, 0])
    assert forced == {0: [0], 1: []}
    assert after[0] == OpenPane(2, (0,))
