"""The two-stage preference query: real tuples, real skylines, time charged by the comparison."""

from penstock.sim.plants.query.preference_plant import PreferencePlant, QueryCosts
from penstock.sim.plants.query.source import QueryStream, of_events, query_stream

__all__ = ["PreferencePlant", "QueryCosts", "QueryStream", "of_events", "query_stream"]
