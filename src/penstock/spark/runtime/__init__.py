"""The micro-batch runtime that queries and flows share: batches, checkpoints, state files."""
