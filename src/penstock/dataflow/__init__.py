"""Operators, flow graphs, regions, key groups and routing."""
