"""Simulated plants: a query on Spark, an operator, a preference query, regions, a network."""
