"""Queries over pandas and Arrow tables, without Spark, against brute force."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.preference import skyline

SKYLINE = ps.skyline_of(ps.minimize("price"), ps.maximize("rating"))
ROWS = st.lists(st.tuples(st.integers(0, 6_000), st.integers(1, 9), st.integers(1, 9)), max_size=60)


def table_of(rows):
    times, prices, ratings = ([row[i] for row in rows] for i in range(3))
    return pa.table(
        {
            "at": pa.array([1_000 * t for t in times], pa.timestamp("us", "UTC")),
            "price": pa.array(prices, pa.float64()),
            "rating": pa.array(ratings, pa.int64()),
            "id": pa.array(range(len(rows)), pa.int64()),
        }
    )


def best(rows, chosen):
    points = np.array([[rows[i][1], -rows[i][2]] for i in chosen], dtype=float).reshape(-1, 2)
    return {chosen[i] for i in skyline(points)}


def kinds(table):
    return [table, table.to_pandas()]


@given(ROWS)
def test_the_best_rows_of_a_table_are_those_of_brute_force_in_the_same_kind(rows):
    right = best(rows, list(range(len(rows)))) if rows else set()
    for given_table in kinds(table_of(rows)):
        answer = SKYLINE.of(given_table)
        assert type(answer) is type(given_table)
        assert sorted(answer["id"].to_pylist() if isinstance(answer, pa.Table) else answer["id"]) == sorted(
            right
        )


@given(ROWS)
def test_the_windows_of_a_table_are_those_of_brute_force_in_the_same_kind(rows):
    query = ps.PreferenceQuery(SKYLINE, time="at", window="2 seconds", slide="1 second")
    right = {}
    for start in range(-1_000, 7_000, 1_000):
        inside = [i for i, row in enumerate(rows) if start <= row[0] < start + 2_000]
        if inside:
            right[start] = best(rows, inside)
    for given_table in kinds(table_of(rows)):
        answer = query.evaluate(given_table)
        assert type(answer) is type(given_table)
        frame = answer if isinstance(answer, pd.DataFrame) else answer.to_pandas()
        found: dict[int, set[int]] = {}
        for start, row in zip(frame["window_start"], frame["id"], strict=True):
            found.setdefault(round(start.timestamp() * 1e3), set()).add(row)
        assert found == right
        assert len(frame) == sum(map(len, right.values()))


@pytest.mark.parametrize(
    "preference",
    [
        ps.skyline_of(ps.minimize("x")),
        ps.top_k_of(1, by="x"),
        ps.top_delta_of(1, ps.minimize("x"), ps.minimize("t")),
    ],
)
def test_a_table_of_which_no_row_can_be_used_has_no_answer(preference):
    query = ps.PreferenceQuery(preference, time="t", window="2 seconds")
    for given_table in kinds(pa.table({"t": [1.0], "x": [float("nan")]})):
        for answer in (query.evaluate(given_table), preference.of(given_table)):
            assert type(answer) is type(given_table)
            assert len(answer) == 0


def test_other_things_are_refused_in_one_sentence():
    query = ps.PreferenceQuery(SKYLINE, time="at", window="2 seconds")
    with pytest.raises(PenstockError, match="a pandas DataFrame or an Arrow table, not list"):
        query.evaluate([1, 2])
    with pytest.raises(PenstockError, match="price"):
        SKYLINE.of(pa.table({"prize": [1.0], "rating": [1]}))
