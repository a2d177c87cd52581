"""Pages and figures of a run, from its journal."""

from penstock.report.page import write_page

__all__ = ["write_page"]
