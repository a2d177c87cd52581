"""Rows by small numbers, against numpy's own sorting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.grouping import numbered, places_of, stable_order

near = st.lists(st.integers(-5, 70_000), max_size=60)
far = st.lists(st.integers(-(2**62), 2**62), max_size=60)


@given(near | far)
def test_values_are_numbered_as_numpy_does(values):
    given_values = np.array(values, dtype=np.int64)
    distinct, index = numbered(given_values)
    expected, inverse = np.unique(given_values, return_inverse=True)
    assert distinct.tolist() == expected.tolist()
    assert index.tolist() == inverse.tolist()


@given(st.lists(st.integers(0, 70_000), max_size=60))
def test_the_order_is_stable(numbers):
    given_numbers = np.array(numbers, dtype=np.int64)
    expected = np.argsort(given_numbers, kind="stable").tolist()
    assert stable_order(given_numbers, max(numbers, default=0) + 1).tolist() == expected


@given(near | far)
def test_every_row_stands_with_its_value_in_order(values):
    expected = {value: [row for row, v in enumerate(values) if v == value] for value in sorted(set(values))}
    found = {value: rows.tolist() for value, rows in places_of(np.array(values, dtype=np.int64))}
    assert list(found.items()) == list(expected.items())
