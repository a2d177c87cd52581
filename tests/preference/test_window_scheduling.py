"""Windows are dealt to workers: every one once, in turn or to the one that is idle first."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.preference.window_scheduling import assign, merge_piles

WORK = st.lists(st.integers(0, 100), max_size=30)


@given(st.sampled_from(["WIN_RR", "WIN_FB"]), WORK, st.integers(1, 6))
def test_every_window_has_one_worker_and_each_takes_the_oldest_first(strategy, work, workers):
    chosen = assign(strategy, range(len(work)), work, workers)
    assert sorted(w for own in chosen for w in own) == list(range(len(work)))
    assert all(own == sorted(own) for own in chosen)


@given(WORK, st.integers(1, 6))
def test_nobody_gets_a_window_while_another_is_idle(work, workers):
    chosen = assign("WIN_FB", range(len(work)), work, workers)
    loads = [0] * workers
    owner = {w: worker for worker, own in enumerate(chosen) for w in own}
    for window, rows in enumerate(work):
        assert loads[owner[window]] == min(loads)
        loads[owner[window]] += rows


@given(WORK, st.integers(1, 6))
def test_piles_hold_every_part_once_and_are_even_up_to_a_part(sizes, share):
    held = dict(enumerate(sizes))
    piles = merge_piles(list(held), held, share)
    assert sorted(p for pile in piles for p in pile) == sorted(held)
    rows = [sum(held[p] for p in pile) for pile in piles]
    assert max(rows) - min(rows) <= max(sizes, default=0)
