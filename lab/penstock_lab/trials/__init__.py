"""Runs on a real cluster in a process of their own, which benchmarks compare."""
