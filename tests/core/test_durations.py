from datetime import timedelta

import pytest

from penstock import PenstockError
from penstock.core.durations import microseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 second", 1_000_000),
        ("200 milliseconds", 200_000),
        ("6 hours", 21_600_000_000),
        ("2 minutes 30 seconds", 150_000_000),
        ("1 day, 2 hours", 93_600_000_000),
        ("INTERVAL 5 Minutes", 300_000_000),
        ("0.2 seconds", 200_000),
        ("1 week", 604_800_000_000),
        ("3ms", 3_000),
        ("10m", 600_000_000),
        ("1h", 3_600_000_000),
        ("1h 30m", 5_400_000_000),
        ("2d", 172_800_000_000),
        (timedelta(seconds=1.5), 1_500_000),
    ],
)
def test_words_become_microseconds(text, expected):
    assert microseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("0 seconds", "longer than zero"),
        ("-1 second", "longer than zero"),
        ("1 month", "not understood"),
        ("second", "not understood"),
        ("1 second and more", "not understood"),
        ("0.1 microseconds", "whole number"),
        (5, "unit"),
    ],
)
def test_what_is_no_duration_is_refused_in_one_sentence(text, says):
    with pytest.raises(PenstockError, match=says):
        microseconds(text, "slide")
