"""Operators to use as they are: sessions, deduplication, an interval join, the top n of a key."""
