"""A word in place of a target."""

import pytest

from penstock.core.errors import PenstockError
from penstock.policies.surroundings import PlantKind
from penstock.policies.wishes import WISHES, wish, wished_late, wished_target


def test_who_prefers_latency_waits_least_and_allows_the_fewest_late():
    order = [wish(word) for word in ("latency", "balance", "cost")]
    assert [w.target for w in order] == sorted(w.target for w in order)
    assert [w.late for w in order] == sorted(w.late for w in order)


def test_without_a_word_there_is_no_target():
    assert wished_target(None, PlantKind.MICRO_BATCHES) is None
    assert wished_target("latency", PlantKind.MICRO_BATCHES) == pytest.approx(3.0)


def test_without_a_word_as_many_may_be_late_as_with_balance():
    assert wished_late(None) == wish("balance").late
    assert wished_late("latency") == pytest.approx(0.01)


def test_other_words_are_refused_with_those_that_are_known():
    with pytest.raises(PenstockError, match=", ".join(sorted(WISHES))):
        wish("beauty")
