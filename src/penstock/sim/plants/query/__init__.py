"""The two-stage preference query: real tuples, real skylines, time charged by the comparison."""
