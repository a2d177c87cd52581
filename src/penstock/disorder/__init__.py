"""How long to wait for late tuples: slack and punctuations."""
