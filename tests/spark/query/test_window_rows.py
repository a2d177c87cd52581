"""Rows of parts that a process keeps between tasks."""

import numpy as np

from penstock.spark.query.window_rows import KeptRows, PartRows


def rows(count: int) -> PartRows:
    return PartRows(np.arange(count), np.zeros(count, dtype=np.int64), np.zeros((count, 2)), None)


def test_what_was_used_last_is_kept_and_the_longest_unused_goes():
    kept, read = KeptRows(most=3 * rows(10).size), []

    def get(name: str, count: int = 10) -> PartRows:
        return kept.get(name, lambda: read.append(name) or rows(count))

    first = get("a")
    get("b"), get("c")
    assert get("a") is first
    get("d")  # b goes: it was unused for longest
    assert get("a") is first
    get("b")
    assert read == ["a", "b", "c", "d", "b"]


def test_what_is_larger_than_all_that_may_be_kept_is_given_and_not_kept():
    kept, read = KeptRows(most=rows(10).size), []
    for _ in range(2):
        assert len(kept.get("large", lambda: read.append(1) or rows(100))) == 100
    kept.get("small", lambda: rows(5))
    assert len(kept.get("small", lambda: rows(99))) == 5
    assert len(read) == 2
