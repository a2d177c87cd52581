"""The answers in plain Python, of everything that is over when the stream ends at ``until``."""

from collections import Counter, defaultdict
from typing import Any

from penstock_lab.nexmark import EUROS, GAP, SELECTED, SLIDE, WINDOW
from penstock_lab.nexmark.events import Events

Rows = set[tuple[Any, ...]]


def q1(events: Events) -> Counter[tuple[Any, ...]]:
    """(auction, bidder, price in euros) of every bid."""
    rows = events.bids.to_pylist()
    return Counter((r["auction"], r["bidder"], r["price"] * EUROS) for r in rows)


def q2(events: Events) -> Counter[tuple[Any, ...]]:
    """(auction, price) of the bids on some auctions."""
    rows = events.bids.to_pylist()
    return Counter((r["auction"], r["price"]) for r in rows if r["auction"] % SELECTED == 0)


def q5(events: Events, until: float) -> Rows:
    """(end of the window, auction, bids) of the auction with the most bids; of equals the one opened last."""
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for row in events.bids.to_pylist():
        first = int(row["at"] // SLIDE) * SLIDE + SLIDE
        for end in range(first, first + WINDOW, SLIDE):
            counts[end][row["auction"]] += 1
    best = {end: max((n, auction) for auction, n in found.items()) for end, found in counts.items()}
    return {(end, auction, n) for end, (n, auction) in best.items() if end <= until}


def q8(events: Events) -> Rows:
    """(person, start of the window) of those who came and opened an auction in the same window."""
    came = {(r["person"], int(r["at"] // WINDOW) * WINDOW) for r in events.persons.to_pylist()}
    opened = {(r["person"], int(r["at"] // WINDOW) * WINDOW) for r in events.auctions.to_pylist()}
    return came & opened


def q11(events: Events, until: float) -> Rows:
    """(bidder, first bid, bids) of every visit that is over."""
    found: Rows = set()
    open_: dict[int, tuple[float, float, int]] = {}
    for row in events.bids.to_pylist():
        start, last, n = open_.get(row["bidder"], (row["at"], row["at"], 0))
        if row["at"] - last >= GAP:
            found.add((row["bidder"], start, n))
            start, n = row["at"], 0
        open_[row["bidder"]] = (start, row["at"], n + 1)
    return found | {(who, start, n) for who, (start, last, n) in open_.items() if last + GAP <= until}
