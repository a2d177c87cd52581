"""One word for people who know no target: ``latency``, ``balance`` or ``cost``."""

from dataclasses import dataclass

from penstock.core.errors import unknown
from penstock.policies.surroundings import TARGETS, PlantKind


@dataclass(frozen=True, slots=True)
class Wish:
    """What the word means: how many times the usual target, and which share of the tuples may be late."""

    target: float
    late: float


WISHES = {"latency": Wish(0.6, 0.01), "balance": Wish(1.0, 0.05), "cost": Wish(2.0, 0.10)}


def wish(word: str) -> Wish:
    """The wish of that name.

    >>> wish("cost").late
    0.1
    """
    if word not in WISHES:
        raise unknown("preference", word, WISHES)
    return WISHES[word]


def wished_late(word: str | None) -> float:
    """The share of tuples that may be late with a word; that of ``balance`` without one.

    >>> wished_late("latency"), wished_late(None)
    (0.01, 0.05)
    """
    return wish("balance" if word is None else word).late


def wished_target(word: str | None, kind: PlantKind) -> float | None:
    """The target in seconds that a word means for a kind of plant; None without a word."""
    return None if word is None else wish(word).target * TARGETS[kind]
