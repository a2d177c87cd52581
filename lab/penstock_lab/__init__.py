"""Experiments around Penstock: the papers' tables, benchmarks, their trials and baselines."""
