"""Persons, auctions and bids in event-time order: of fifty events one is a person, three are auctions, the rest bids."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

#: Of fifty events in a row.
PERSONS, AUCTIONS, ALL = 1, 3, 50
#: Half of the bids go to one of the hot auctions, the last hundred opened; a quarter come from hot bidders.
HOT_BIDS, HOT_BIDDERS, RECENT = 0.5, 0.25, 100

BIDS = {"auction": "int64", "bidder": "int64", "price": "int64", "at": "float64"}
PEOPLE = {"person": "int64", "at": "float64"}
OPENED = {"auction": "int64", "person": "int64", "at": "float64"}


@dataclass(frozen=True, eq=False)
class Events:
    """The three streams; ``at`` is the event time in seconds."""

    persons: pa.Table
    auctions: pa.Table
    bids: pa.Table

    def between(self, start: float, end: float) -> "Events":
        """The events of some seconds."""
        return Events(*(_between(t, start, end) for t in (self.persons, self.auctions, self.bids)))


def generate(count: int, rate: float, seed: int = 0, start: float = 0.0) -> Events:
    """So many events, so many a second on average, from a time on.

    >>> made = generate(5_000, rate=1000.0)
    >>> made.persons.num_rows, made.auctions.num_rows, made.bids.num_rows
    (100, 300, 4600)
    """
    rng = np.random.default_rng(seed)
    at = start + np.cumsum(rng.exponential(1.0 / rate, count))
    place = np.arange(count) % ALL
    is_person, is_auction = place < PERSONS, (place >= PERSONS) & (place < PERSONS + AUCTIONS)
    is_bid = ~(is_person | is_auction)
    # How many persons and auctions there are when an event happens; the first of each is there from the beginning.
    persons, auctions = np.maximum(np.cumsum(is_person), 1), np.maximum(np.cumsum(is_auction), 1)
    people = pa.table({"person": np.flatnonzero(is_person) // ALL, "at": at[is_person]})
    sellers = _among(rng, persons[is_auction], 0.2)
    opened = pa.table({"auction": np.arange(int(is_auction.sum())), "person": sellers, "at": at[is_auction]})
    bids = pa.table({
        "auction": _among(rng, auctions[is_bid], HOT_BIDS),
        "bidder": _among(rng, persons[is_bid], HOT_BIDDERS),
        "price": np.rint(np.exp(rng.normal(5.0, 1.0, int(is_bid.sum()))) * 100).astype(np.int64),
        "at": at[is_bid],
    })  # fmt: skip
    return Events(people, opened, bids)


def _among(rng: np.random.Generator, known: "np.ndarray[tuple[int], np.dtype[np.int64]]", hot: float) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":  # fmt: skip
    """One of those known so far: with a probability a recent one, otherwise any."""
    anyone = (rng.random(len(known)) * known).astype(np.int64)
    recent = known - 1 - (rng.random(len(known)) * np.minimum(known, RECENT)).astype(np.int64)
    return np.where(rng.random(len(known)) < hot, recent, anyone)


def _between(table: pa.Table, start: float, end: float) -> pa.Table:
    at = table["at"].to_numpy()
    first, last = np.searchsorted(at, [start, end])
    return table.slice(int(first), int(last - first))
