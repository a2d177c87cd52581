"""The page of a run: live beside it, over a journal, or as one file with the data inside."""
