import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import PenstockError
from penstock.preference import top_k

SCORES = st.lists(st.integers(0, 9).map(float), max_size=40)


def by_sorting(scores, k):
    return [i for i, s in enumerate(scores) if sum(other < s for other in scores) < k]


@given(SCORES, st.integers(1, 12))
def test_rows_that_share_the_kth_score_all_stay(scores, k):
    assert top_k(scores, k).tolist() == by_sorting(scores, k)


@given(SCORES, st.integers(1, 12))
def test_exactly_k_rows_are_the_first_of_the_best(scores, k):
    best = sorted(range(len(scores)), key=lambda i: (scores[i], i))[:k]
    assert top_k(scores, k, exactly=True).tolist() == sorted(best)


@given(SCORES, st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_each_class_has_its_own_best(scores, k, exactly, seed):
    classes = np.random.default_rng(seed).integers(0, 3, len(scores))
    want = [
        rows[top_k(np.array(scores)[rows], k, exactly=exactly)]
        for rows in (np.flatnonzero(classes == c) for c in range(3))
    ]
    got = top_k(scores, k, exactly=exactly, classes=classes)
    assert got.tolist() == sorted(np.concatenate(want).tolist())


@pytest.mark.parametrize(("scores", "k"), [([1.0], 0), ([float("nan")], 1), ([[1.0]], 1)])
def test_nonsense_is_refused(scores, k):
    with pytest.raises(PenstockError):
        top_k(scores, k)
