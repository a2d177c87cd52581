"""Both window stages against a brute-force oracle: empty panes, gaps, ties, classes, slides of several panes, R = 1."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.preference.builders import minimize, skyline_of, top_k_of
from penstock.preference.sliding import LiveSet
from penstock.preference.two_stacks import TwoStacks

QUERY = skyline_of(minimize("a"), minimize("b"), minimize("c"))


@st.composite
def streams(draw, width=3):
    """(pane -> rows, classes or not, panes a window, panes a slide); rows come with many ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    panes = sorted(draw(st.sets(st.integers(-20, 20), max_size=10)))
    overlap, slide = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    with_classes = draw(st.booleans())
    rows = {}
    for pane in panes:
        count = int(rng.integers(0, 12))
        rows[pane] = rng.integers(0, 5, (count, width)).astype(float), rng.integers(0, 3, count)
    return rows, with_classes, max(overlap, slide), slide


def drive(stage, select, stream):
    """Feed panes, read every window at its end; yields (start, end, ids) and checks what is held."""
    rows, with_classes, overlap, slide = stream
    ids = {pane: np.arange(len(points)) + 1000 * (pane + 50) for pane, (points, _) in rows.items()}
    first = min(rows, default=0) - overlap
    start = first - first % slide
    while start <= max(rows, default=0):
        end = start + overlap - 1
        for pane in [p for p in rows if p not in fed(stage) and p <= end]:
            points, classes = rows[pane]
            kept = select(points, classes if with_classes else None)
            stage = stage.advance(
                pane, points[kept], classes[kept] if with_classes else None, ids[pane][kept]
            )
        stage = stage.expire(start)
        yield start, end, stage.window(start, end), ids, stage
        start += slide


def fed(stage):
    newest = stage.newest if stage.newest is not None else -(10**9)
    return range(-(10**3), newest + 1)


def union(stream, ids, start, end):
    rows, with_classes, *_ = stream
    inside = [p for p in rows if start <= p <= end]
    points = np.concatenate([rows[p][0] for p in inside]) if inside else np.zeros((0, 3))
    classes = np.concatenate([rows[p][1] for p in inside]) if inside else np.zeros(0, int)
    names = np.concatenate([ids[p] for p in inside]) if inside else np.zeros(0, int)
    return points, classes if with_classes else np.zeros(len(points), int), names


@settings(max_examples=150, deadline=None)
@given(streams())
def test_the_live_set_gives_the_skyline_of_every_window(stream):
    stage = LiveSet.empty(3, with_classes=stream[1])
    for start, end, got, ids, _ in drive(stage, QUERY.select, stream):
        points, classes, names = union(stream, ids, start, end)
        assert sorted(got.tolist()) == sorted(names[oracles.skyline(points, classes)].tolist())


@settings(max_examples=150, deadline=None)
@given(streams())
def test_two_stacks_give_the_skyline_of_every_window(stream):
    for start, end, got, ids, _ in drive(TwoStacks(QUERY), QUERY.select, stream):
        points, classes, names = union(stream, ids, start, end)
        assert sorted(got.tolist()) == sorted(names[oracles.skyline(points, classes)].tolist())


@settings(max_examples=80, deadline=None)
@given(streams(), st.integers(1, 4))
def test_two_stacks_give_the_k_best_of_every_window(stream, k):
    query = top_k_of(k, by="a")
    for start, end, got, ids, _ in drive(TwoStacks(query), query.select, stream):
        points, classes, names = union(stream, ids, start, end)
        best = [
            n
            for n, p, c in zip(names, points, classes, strict=True)
            if (points[classes == c, 0] < p[0]).sum() < k
        ]
        assert sorted(got.tolist()) == sorted(best)


def test_about_three_merges_a_pane_whatever_the_overlap():
    rng = np.random.default_rng(0)
    for overlap in (2, 10, 50):
        stacks = TwoStacks(QUERY)
        for pane in range(200):
            points = rng.random((5, 3))
            stacks = stacks.advance(pane, points[QUERY.select(points)]).expire(pane - overlap + 1)
        assert stacks.merges / 200 <= 2, "plus one merge for each window read"


@pytest.mark.parametrize("stage", [LiveSet.empty(3), TwoStacks(QUERY)])
def test_what_is_held_does_not_grow_with_the_stream(stage):
    rng = np.random.default_rng(0)
    sizes = []
    for pane in range(300):
        points = rng.random((20, 3))
        stage = stage.advance(pane, points[QUERY.select(points)]).expire(pane - 4)
        held = len(stage) if isinstance(stage, LiveSet) else len(stage.front) + len(stage.back)
        sizes.append(held)
    assert max(sizes[150:]) <= 1.5 * max(sizes[:150])


@pytest.mark.parametrize("stage", [LiveSet.empty(1), TwoStacks(top_k_of(1, by="a"))])
def test_panes_and_windows_out_of_order_are_refused(stage):
    stage = stage.advance(3, np.ones((1, 1)))
    with pytest.raises(ValueError, match="ascend"):
        stage.advance(3, np.ones((1, 1)))
    with pytest.raises(ValueError, match="already"):
        stage.window(0, 2)


def test_a_part_carries_points_and_classes():
    live = LiveSet.empty(1, with_classes=True).advance(0, np.array([[2.0], [1.0]]), np.array([7, 8]))
    part = live.part(0, 0)
    assert part.points.tolist() == [[2.0], [1.0]]
    assert part.classes.tolist() == [7, 8]
