"""Nexmark (Tucker and others, 2002): an auction house as a benchmark of streams; queries 1, 2, 5, 8 and 11.

events   persons, auctions and bids in the proportions of the benchmark, from a seed
oracle   the answers in plain Python
flows    the queries as Penstock flows
spark    the queries as Structured Streaming writes them
"""

#: Query -> what it asks.
QUERIES = {
    "q1": "bids in another currency",
    "q2": "bids on some auctions",
    "q5": "the auction with the most bids of the last 10 seconds, every 2 seconds",
    "q8": "persons who opened an auction in the same 10 seconds in which they came",
    "q11": "bids of a person in one visit, which ends with 10 seconds of silence",
}

#: Euros for a dollar; auctions of query 2 are those whose number it divides.
EUROS, SELECTED = 0.908, 123
#: Seconds: window and slide of query 5, window of query 8, gap of query 11.
WINDOW, SLIDE, GAP = 10, 2, 10
