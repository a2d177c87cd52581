"""Which event times are believed, against the rules read out row by row."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.belief import (
    DAY,
    MANY,
    Belief,
    Judgement,
    Limits,
    Lookout,
    Sighting,
    _joined,
    confirmed,
    judge,
    learned,
    too_far_behind,
)

NOW = 1_000_000
LIMITS = Limits(ahead=100, behind=200)
# Times in a few places, so that clusters have many rows, few rows and long gaps between them.
PLACES = st.sampled_from([1_000, 1_060, 1_150, 5_000, 5_090, 40_000, NOW, 9 * NOW])
TIMES = st.lists(st.builds(lambda place, step: place + step, PLACES, st.integers(0, 30)), max_size=30)
BATCHES = st.lists(TIMES, min_size=1, max_size=3)


def clusters_of(rows: list[tuple[int, int, int]], ahead: int) -> list[list[tuple[int, int, int]]]:
    found: list[list[tuple[int, int, int]]] = []
    for row in sorted(rows):
        if found and row[0] - found[-1][-1][0] <= ahead:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def believed_up_to(parts: list[list[int]], latest: int | None, limits: Limits, now: int) -> int | None:
    """The rules of the module's text, one row at a time."""
    rows = [(time, part, place) for part, times in enumerate(parts) for place, time in enumerate(times)]
    clusters = clusters_of([r for r in rows if latest is None or r[0] > latest], limits.ahead)
    if latest is None:
        large = [c for c in clusters if len(c) >= MANY]
        possible = clusters if large else [c for c in clusters if c[0][0] <= now + limits.ahead]
        if not possible:
            return None
        latest = max(possible, key=lambda c: (len(c), c[0][0]))[-1][0]
    above, highest = 0, latest
    for cluster in reversed([c for c in clusters if c[-1][0] > latest]):
        since = 0
        for part in {row[1] for row in cluster}:
            first = min(place for _, p, place in cluster if p == part)
            since += len(parts[part]) - first
        if len(cluster) + above >= MANY and 2 * (len(cluster) + above) >= since:
            above += len(cluster)
            highest = max(highest, cluster[-1][0])
    return highest


def looked(parts, latest, chunk=7):
    told, rows = [], 0
    for times in parts:
        lookout = Lookout(LIMITS.ahead, latest)
        for begin in range(0, len(times), chunk):
            lookout.see(np.array(times[begin : begin + chunk], dtype=np.int64))
        told.append(lookout.told())
        rows += lookout.rows
    return told, rows


@given(BATCHES, st.none() | st.sampled_from([1_100, 5_100, 50_000]))
def test_a_batch_is_judged_by_the_rules(parts, latest):
    told, rows = looked(parts, latest)
    judged = judge(told, rows, Belief(), latest, NOW, LIMITS)
    assert judged.latest == believed_up_to(parts, latest, LIMITS, NOW)


@given(BATCHES, st.none() | st.sampled_from([1_100, 5_100]))
def test_chunks_make_no_difference(parts, latest):
    assert looked(parts, latest, 3) == looked(parts, latest, 1000)


@given(TIMES, st.none() | st.sampled_from([1_100, 5_100]), st.integers(0, 5000))
def test_rows_are_too_far_behind_the_newest_before_them(times, seen, behind):
    found = too_far_behind(np.array(times, dtype=np.int64), seen, behind)
    highest, late = seen, []
    for time in times:
        highest = time if highest is None else max(highest, time)
        late.append(highest - time > behind)
    assert (found.tolist() if found is not None else [False] * len(times)) == late


class Stream:
    """Batches of one partition, judged one after another; what a runtime does."""

    def __init__(self, limits=LIMITS):
        self.limits, self.belief, self.newest, self.passes = limits, Belief(), None, 0

    def feed(self, times, now=NOW):
        """The times that are believed."""
        latest = self.belief.latest(self.newest, now, self.limits)
        lookout = Lookout(self.limits.ahead, latest)
        lookout.see(np.array(times, dtype=np.int64))
        told = [lookout.told()]
        judged = judge(told, lookout.rows, self.belief, latest, now, self.limits)
        self.passes += 1 + judged.overturns(latest, told)
        bound = -1 if judged.latest is None else judged.latest
        kept = [t for t in times if t <= bound]
        newest = max([t for t in (self.newest, *kept) if t is not None], default=None)
        belief = learned(self.belief, judged, self.newest, newest, now, self.limits.ahead)
        self.belief = Belief.from_json(json.loads(json.dumps(belief.to_json())))
        self.newest = newest
        return kept


@given(st.integers(1, 40), st.integers(0, 3))
def test_a_gap_costs_at_most_the_rows_that_confirm_it(size, stray):
    stream, dead = Stream(), 0
    old = [1_000 + t for t in range(60)]
    new = [50_000 + t for t in range(60)]
    new[5:5] = [9 * NOW] * stray
    rows = [*old, *new]
    for begin in range(0, len(rows), size):
        batch = rows[begin : begin + size]
        dead += len(batch) - len(stream.feed(batch))
    assert stream.newest == 50_059
    assert dead - stray < MANY + stray


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(0, 19))
def test_one_row_far_ahead_moves_nothing_wherever_it_stands(sizes, at):
    stream, time = Stream(), 2_000
    for number, size in enumerate(sizes):
        batch = list(range(time, time + size))
        time += size
        wrong = [9 * NOW] if number == at else []
        assert stream.feed([*wrong, *batch]) == batch
    assert stream.newest == time - 1


def test_a_wrong_clock_among_others_is_never_believed():
    stream = Stream()
    stream.feed(range(1_000, 1_050))
    for step in range(50):
        good = [1_050 + step] * 19
        assert stream.feed([*good, 40_000 + step]) == good


def test_a_live_stream_goes_on_after_any_gap_at_once():
    stream = Stream()
    assert stream.feed([NOW]) == [NOW]
    for hours in (1, 50, 1000):
        now = NOW + hours * 3_600_000_000
        assert stream.feed([now - 5, now + LIMITS.ahead + 1], now) == [now - 5]


def test_a_recording_is_read_in_steps_of_any_size_and_looked_at_twice_only_at_first():
    stream = Stream()
    for step in range(20):
        begin = 1_000 + step * 5_000
        assert len(stream.feed(range(begin, begin + 5_000, 50))) == 100
    assert stream.passes == 21


def test_a_first_batch_of_a_few_rows_of_any_past_is_believed():
    assert Stream().feed([1_000, 5_000, 40_000]) == [1_000, 5_000, 40_000]


def test_a_first_row_in_the_future_waits_until_many_agree():
    stream = Stream()
    for _ in range(MANY - 1):
        assert stream.feed([9 * NOW]) == []
    assert stream.feed([9 * NOW]) == [9 * NOW]


def test_what_most_rows_contradict_is_forgotten():
    stream = Stream()
    stream.feed(range(1_000, 1_050))
    stream.feed([40_000])
    assert stream.belief.doubted == (Sighting(40_000, 40_000, 1, 1),)
    stream.feed([1_050, 1_051])
    assert stream.belief.doubted == ()


def test_absurd_times_by_the_thousand_do_not_hide_the_stream():
    rng = np.random.default_rng(5)
    wrong = rng.integers(0, 9_000 * 365 * DAY, 20_000)
    good = 1_700_000_000_000_000 + np.arange(30_000) * 1000
    times = rng.permutation(np.concatenate([wrong, good]))
    lookout = Lookout(3_600_000_000, None)
    lookout.see(times)
    told = [lookout.told()]
    judged = judge(told, len(times), Belief(), None, 1_760_000_000_000_000, Limits(3_600_000_000))
    assert judged == Judgement(good[-1], judged.doubted) or judged.latest - good[-1] < 3_600_000_000


@pytest.mark.parametrize("latest", [None, 7])
def test_nothing_seen_changes_nothing(latest):
    assert judge([], 0, Belief(), latest, NOW, LIMITS) == Judgement(latest)
    assert not Judgement(latest).overturns(latest, [])
    belief = Belief(True, 5, (Sighting(10, 20, 3, 4),))
    assert learned(belief, Judgement(7, belief.doubted), NOW, NOW, NOW, 50) == belief


@pytest.mark.parametrize(
    ("rows", "since", "enough"),
    [(MANY, 2 * MANY, True), (MANY, 2 * MANY + 1, False), (MANY - 1, MANY - 1, False)],
)
def test_many_rows_that_are_half_of_those_since_confirm_a_jump(rows, since, enough):
    assert confirmed(rows, since) == enough


def test_all_up_to_the_last_confirmed_cluster_is_believed():
    """Three places, one after the other: only the last has rows enough, and speaks for those below it."""
    first, second = Sighting(1_000, 1_001, 4, since=22), Sighting(2_000, 2_001, 9, since=18)
    third = Sighting(3_000, 3_001, 10, since=10)
    few = Limits(ahead=100)

    def up_to(*clusters):
        return judge([clusters], 100, Belief(), latest=40, now=0, limits=few).latest

    assert up_to(first) == up_to(second) == up_to(first, second) == 40
    assert up_to(third) == up_to(second, third) == up_to(first, second, third) == 3_001
    # Nothing of the lower ones is left in doubt.
    assert judge([(first, second, third)], 100, Belief(), 40, 0, few).doubted == ()
    assert up_to(first, Sighting(2_000, 2_001, 9, since=9)) == 40


def test_a_jump_is_from_just_above_what_is_believed():
    at = Sighting(40, 40, 50, since=50)
    assert judge([(at,)], 100, Belief(), latest=40, now=0, limits=Limits(ahead=10)) == Judgement(40, ())


def test_how_far_rows_are_believed_at_first_sight():
    limits = Limits(ahead=50)
    for newest in (800, 900, 950):  # with the clock of the wall
        assert Belief(live=True, stride=7).latest(newest, now=900, limits=limits) == 950
    assert Belief(live=True, stride=7).latest(951, now=900, limits=limits) == 951 + 50 + 7
    assert Belief(live=False, stride=7).latest(900, now=900, limits=limits) == 957


@pytest.mark.parametrize(
    ("before", "newest", "stride"),
    [(None, 100, 20), (100, 100, 20), (96, 100, 8), (70, 100, 20), (69, 100, 31), (88, 100, 20)],
)
def test_the_stride_is_the_last_jump_and_shrinks_with_smaller_steps(before, newest, stride):
    after = learned(Belief(stride=20), Judgement(newest), before, newest, now=0, ahead=10)
    assert after.stride == stride
    assert not after.live


@pytest.mark.parametrize(("now", "live"), [(110, True), (90, True), (111, False), (89, False)])
def test_a_stream_is_live_within_the_limit_of_the_wall_clock(now, live):
    assert learned(Belief(), Judgement(100), 99, 100, now, ahead=10).live == live


def test_a_first_batch_of_few_rows_is_believed_up_to_the_limit_of_the_wall_clock():
    at, over = Sighting(110, 110, 2, since=5), Sighting(300, 300, 3, since=4)
    assert judge([(at, over)], 5, Belief(), None, now=100, limits=Limits(ahead=10)).latest == 110


def test_clusters_of_partitions_and_of_earlier_batches_go_together():
    """A gap of just ``ahead`` joins; partitions count for themselves, what an earlier batch saw for all."""
    limits = Limits(ahead=10)
    left, right = Sighting(1_000, 1_005, 6, since=9), Sighting(1_015, 1_020, 6, since=15)
    assert judge([(left,), (right,)], 100, Belief(), 40, 0, limits).latest == 1_020  # 12 of 24
    assert judge([(left,), (replace(right, since=16),)], 100, Belief(), 40, 0, limits).latest == 40
    apart = replace(right, low=1_016)
    assert judge([(left,), (apart,)], 100, Belief(), 40, 0, limits).latest == 40
    before = Belief(doubted=(Sighting(1_000, 1_000, 5, since=5),))
    assert judge([(left,), (right,)], 29, before, 40, 0, limits).latest == 1_020  # 17 of 34
    assert judge([(left,), (right,)], 30, before, 40, 0, limits).latest == 40


def test_what_half_of_the_rows_since_agree_with_stays_in_doubt():
    half, less = Sighting(1_000, 1_000, 3, since=6), Sighting(2_000, 2_000, 3, since=7)
    assert judge([(half, less)], 100, Belief(), 40, 0, Limits(ahead=10)).doubted == (half,)


def test_a_row_is_too_far_behind_only_beyond_the_limit():
    assert too_far_behind(np.array([100, 50]), None, 50) is None
    assert too_far_behind(np.array([100, 49, 50]), None, 50).tolist() == [False, True, False]
    assert too_far_behind(np.array([50]), 101, 50).tolist() == [True]


def test_a_partition_counts_the_rows_since_its_first_part_of_a_cluster():
    """Two groups of rows of one partition that only another's rows bring together."""
    first, second, between = Sighting(0, 10, 6, 100), Sighting(200, 210, 4, 5), Sighting(90, 120, 3, 7)
    assert _joined((), [(first, second), (between,)], ahead=100) == [Sighting(0, 210, 13, 107)]
