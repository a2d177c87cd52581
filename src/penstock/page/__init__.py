"""The page of a run: live beside it, over a journal, or as one file with the data inside."""

from penstock.page.document import write_report

__all__ = ["write_report"]
