"""Arrival processes, attributes, disorder, traces and burst statistics."""
