"""Bounds that claims are judged by; each says itself in words, so that a page cannot print another one.

The rule for the papers: where a paper prints a number, ours must be within a quarter of it, on either side; where it says
that something is cut about so many times, at least three quarters of that; where it says an order or "always", that must
hold in every case that is shown, without slack (decision 52).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: How far from a published number a figure may be.
NEAR = 0.25


@dataclass(frozen=True)
class Judged:
    """Whether a bound holds, and the bound in words."""

    holds: bool
    bound: str


def judged(holds: bool, bound: str) -> Judged:
    """A bound in words; the caller computes it."""
    return Judged(bool(holds), bound)


def near(*pairs: tuple[float, float], share: float = NEAR, form: str = ".3g") -> Judged:
    """Each figure within a share of the published one: pairs of (ours, published).

    >>> near((0.29, 0.45), form=".0%")
    Judged(holds=False, bound='34% to 56%')
    >>> near((6.0, 7.0), share=0.0, form="g").bound
    '7'
    """
    bounds = [
        (f"{p * (1 - share):{form}} to {p * (1 + share):{form}}" if share else f"{p:{form}}")
        for _, p in pairs
    ]
    return Judged(
        all(abs(ours - p) <= share * abs(p) + 1e-12 for ours, p in pairs), "; ".join(dict.fromkeys(bounds))
    )


def count_near(pairs: Sequence[tuple[float, float]]) -> int:
    """How many figures are within a quarter of the published ones: pairs of (ours, published)."""
    return sum(near(pair).holds for pair in pairs)


def each_near(pairs: Sequence[tuple[float, float]]) -> Judged:
    """Each of many figures within a quarter of the published one, told without a range for each.

    >>> each_near([(6.0, 7.0), (1.0, 7.0)])
    Judged(holds=False, bound='each of 2 within a quarter')
    """
    return Judged(count_near(pairs) == len(pairs) > 0, f"each of {len(pairs)} within a quarter")


def cut_by(times: float, published: float) -> Judged:
    """Something is cut about so many times: one-sided, since more is what was wanted.

    >>> cut_by(19.2, 10)
    Judged(holds=True, bound='at least 7.5 times: three quarters of it, one-sided')
    """
    least = (1 - NEAR) * published
    return Judged(bool(times >= least), f"at least {least:g} times: three quarters of it, one-sided")


def within(low: float, high: float, *values: float, form: str = ".3g") -> Judged:
    """Every value between two numbers.

    >>> within(0.8, 1.0, 0.9, 1.1).holds
    False
    """
    return Judged(
        all(low <= v <= high for v in values),
        f"{'each ' * (len(values) > 1)}{low:{form}} to {high:{form}}",
    )


def at_least(value: float, least: float, form: str = ".3g") -> Judged:
    """No less than a number."""
    return Judged(bool(value >= least), f"at least {least:{form}}")


def at_most(value: float, most: float, form: str = ".3g") -> Judged:
    """No more than a number."""
    return Judged(bool(value <= most), f"at most {most:{form}}")


def rising(values: Sequence[float]) -> Judged:
    """Every value above the one before.

    >>> rising([1, 2, 2])
    Judged(holds=False, bound='each above the one before')
    """
    return Judged(all(a < b for a, b in pairwise(values)), "each above the one before")


def falling(values: Sequence[float]) -> Judged:
    """Every value below the one before."""
    return Judged(all(a > b for a, b in pairwise(values)), "each below the one before")


def every(held: int, of: int, what: str = "") -> Judged:
    """All of so many cases; ``what`` says what is compared in each.

    >>> every(7, 8)
    Judged(holds=False, bound='all 8')
    >>> every(8, 8, "fewer than before").bound
    'all 8: fewer than before'
    """
    return Judged(held == of and of > 0, f"all {of}" + f": {what}" * bool(what))


def both(*parts: Judged) -> Judged:
    """All of several bounds."""
    return Judged(all(p.holds for p in parts), "; ".join(p.bound for p in parts))
