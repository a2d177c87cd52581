"""Lengths of time as users write them, in microseconds."""

import re
from datetime import timedelta
from fractions import Fraction

from penstock.core.errors import PenstockError

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*,?")


def microseconds(duration: str | timedelta, name: str = "duration") -> int:
    """A positive length of time in whole microseconds; Spark's interval words, and sums of them.

    >>> microseconds("200 milliseconds")
    200000
    >>> microseconds("1h") == microseconds("60m")
    True
    >>> microseconds("2 minutes 30 seconds") == microseconds("2.5 minutes")
    True
    """
    if isinstance(duration, timedelta):
        total = Fraction(duration // timedelta(microseconds=1))
    elif isinstance(duration, str):
        total = _parse(duration, name)
    else:
        raise PenstockError(f"The {name} is {duration!r}; write it with its unit, like '1 second'.")
    if total <= 0:
        raise PenstockError(f"The {name} is '{duration}'; it must be longer than zero.")
    if total.denominator != 1:
        raise PenstockError(f"The {name} '{duration}' is no whole number of microseconds; round it.")
    return int(total)


def _parse(text: str, name: str) -> Fraction:
    rest = text.strip().lower().removeprefix("interval ").strip()
    total, position = Fraction(0), 0
    while position < len(rest):
        part = _PART.match(rest, position)
        unit = _unit(part.group(2)) if part else None
        if part is None or unit is None:
            raise PenstockError(
                f"The {name} '{text}' is not understood; write a number and a unit "
                "from microsecond to week, like '200 milliseconds'."
            )
        total += Fraction(part.group(1)) * _UNITS[unit]
        position = part.end()
    if not rest:
        raise PenstockError(f"The {name} is empty; write a number and a unit, like '1 second'.")
    return total


def _unit(word: str) -> str | None:
    word = _SHORT.get(word, word)
    return word.removesuffix("s") if word.removesuffix("s") in _UNITS else None
