import pickle

import numpy as np
import oracles
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import PenstockError, Preference
from penstock.testing.preference_suite import check_preference

AB = (ps.minimize("a"), ps.maximize("b"))
ABC = (*AB, ps.minimize("c"))


def top_delta_oracle(delta):
    def rows(points):
        factors = oracles.factors(points)
        for k in range(1, points.shape[1] + 1):
            chosen = np.flatnonzero((factors > 0) & (factors <= k))
            if len(chosen) > delta:
                return chosen
        return np.flatnonzero(factors)

    return rows


def k_dominant_oracle(k):
    def rows(points):
        factors = oracles.factors(points)
        return np.flatnonzero((factors > 0) & (factors <= k))

    return rows


def test_the_skyline_keeps_the_rules():
    check_preference(ps.skyline_of(*ABC), oracles.skyline)


def test_the_k_dominant_skyline_keeps_the_rules():
    check_preference(ps.k_dominant_of(2, *ABC), k_dominant_oracle(2))


@pytest.mark.parametrize("delta", [1, 4, 100])
def test_top_delta_keeps_the_rules(delta):
    check_preference(ps.top_delta_of(delta, *ABC), top_delta_oracle(delta))


def test_top_k_keeps_the_rules():
    def best(points):
        return np.flatnonzero([(points[:, 0] < p).sum() < 3 for p in points[:, 0]])

    check_preference(ps.top_k_of(3, by="a"), best)


class Cheapest(Preference):
    attributes = (ps.minimize("price"),)

    def select(self, points):
        return np.flatnonzero(points[:, 0] == points[:, 0].min(initial=np.inf))

    def merge(self, left, right):
        kept = self.select(np.vstack([left, right]))
        return kept[kept < len(left)], kept[kept >= len(left)] - len(left)


def test_a_preference_of_ones_own_needs_select_and_merge_only():
    check_preference(Cheapest(), lambda points: np.flatnonzero(points[:, 0] == points[:, 0].min(initial=9)))


def test_a_subclass_of_ones_own_is_wrapped_once():
    class Cheaper(Cheapest):
        def answer(self, points):
            return np.arange(len(points))[:1], {}

    rows, _ = Cheaper().answer(np.array([[1.0], [1.0], [1.0]]), np.array([0, 1, 0]))
    assert rows.tolist() == [0, 1]


def test_a_merge_that_is_not_associative_is_found():
    class LeftWins(Cheapest):
        def merge(self, left, right):
            return (
                (np.arange(len(left)), np.arange(0)) if len(left) else (np.arange(0), np.arange(len(right)))
            )

    with pytest.raises(AssertionError, match="merge"):
        check_preference(LeftWins())


def test_a_select_that_loses_rows_on_second_sight_is_found():
    class Halves(Cheapest):
        def select(self, points):
            return np.arange((len(points) + 1) // 2)

    with pytest.raises(AssertionError, match="idempotence"):
        check_preference(Halves())


def test_a_wrong_answer_is_found():
    with pytest.raises(AssertionError, match="oracle"):
        check_preference(ps.skyline_of(*ABC), lambda points: oracles.skyline(points)[:1])


def test_columns_become_points_turned_so_that_smaller_is_better():
    table = pa.table({"b": [1.5, 2.5], "a": [1, 2], "x": ["u", "v"]})
    assert ps.skyline_of(*AB).points(table).tolist() == [[1.0, -1.5], [2.0, -2.5]]
    assert ps.skyline_of(*AB).columns == ("a", "b")


def test_times_booleans_and_decimals_can_be_ranked():
    from datetime import date, datetime
    from decimal import Decimal

    table = pa.table(
        {
            "t": [datetime(2020, 1, 2), datetime(2020, 1, 1)],
            "d": [date(2020, 1, 2), date(2020, 1, 1)],
            "m": [Decimal("2.50"), Decimal("1.25")],
            "f": [True, False],
        }
    )
    query = ps.skyline_of(*(ps.minimize(c) for c in "tdmf"))
    assert query.select(query.points(table)).tolist() == [1]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(0, 999))
def test_diff_compares_only_within_equal_values(rows, seed):
    rng = np.random.default_rng(seed)
    table = pa.table({"a": rng.random(rows), "b": rng.random(rows), "kind": rng.choice(["x", "y"], rows)})
    query = ps.skyline_of(*AB, ps.diff("kind"))
    points, classes = query.points(table), query.classes(table)
    want = oracles.skyline(points, (table["kind"].to_numpy(zero_copy_only=False) == "x").astype(int))
    assert query.select(points, classes).tolist() == want.tolist()


def test_distinct_keeps_one_of_equal_rows_in_the_answer():
    points = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    assert ps.skyline_of(*AB, distinct=True).answer(points)[0].tolist() == [0, 2]
    assert ps.skyline_of(*AB, distinct=True).answer(points, np.array([0, 1, 0]))[0].tolist() == [0, 1, 2]


def test_top_delta_gives_the_factor_as_a_column_per_class():
    rng = np.random.default_rng(5)
    points, classes = rng.random((80, 4)), rng.integers(0, 2, 80)
    query = ps.top_delta_of(5, *(ps.minimize(c) for c in "abcd"))
    kept = query.select(points, classes)
    rows, extras = query.answer(points[kept], classes[kept])
    for c in (0, 1):
        own = np.flatnonzero(classes == c)
        alone = top_delta_oracle(5)(points[own])
        assert sorted(kept[rows][classes[kept][rows] == c].tolist()) == own[alone].tolist()
    assert extras["dominance_factor"].dtype == np.int32
    assert query.extra_columns == {"dominance_factor": pa.int32()}


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: ps.skyline_of(), "rank"),
        (lambda: ps.skyline_of(ps.diff("a")), "rank"),
        (lambda: ps.skyline_of("a"), "minimize"),
        (lambda: ps.skyline_of(ps.minimize("a"), ps.maximize("a")), "twice"),
        (lambda: ps.minimize(""), "name"),
        (lambda: ps.k_dominant_of(3, *AB), "choose k"),
        (lambda: ps.top_delta_of(0, *AB), "at least 1"),
        (lambda: ps.top_k_of(0, by="a"), "at least 1"),
    ],
)
def test_a_preference_that_makes_no_sense_is_refused(build, says):
    with pytest.raises(PenstockError, match=says):
        build()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"a": [1]}, "Unknown column 'b'"),
        ({"a": ["x"], "b": [1]}, "no numeric order"),
        ({"a": [None, 1], "b": [1, 2]}, "nulls"),
        ({"a": [2**60], "b": [1]}, "beyond 2\\^53"),
    ],
)
def test_columns_that_cannot_be_ranked_are_refused(table, says):
    with pytest.raises(PenstockError, match=says):
        ps.skyline_of(*AB).points(pa.table(table))


def test_bad_rows_are_named_with_their_reason():
    table = pa.table({"a": [1.0, None, float("nan"), 2.0], "b": [1, 2, 3, None]})
    rows, reasons = ps.skyline_of(*AB).bad_rows(table)
    assert rows.tolist() == [1, 2, 3]
    assert reasons == ["a is null", "a is NaN", "b is null"]


def test_preferences_are_values_that_travel():
    query = ps.top_delta_of(5, *AB, exactly=True)
    assert pickle.loads(pickle.dumps(query)) == query
    assert repr(query) == repr(ps.top_delta_of(5, *AB, exactly=True))
