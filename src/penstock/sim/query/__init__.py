"""The two-stage preference query: real tuples, real skylines, time charged by the comparison."""

from penstock.sim.query.plant import PreferencePlant, QueryCosts
from penstock.sim.query.source import QueryStream, of_events, query_stream

__all__ = ["PreferencePlant", "QueryCosts", "QueryStream", "of_events", "query_stream"]
