"""The error of a source that may come back."""

from penstock.core.errors import PenstockError


class SourceAwayError(PenstockError):
    """A source does not answer now; nothing is lost, and the same batch may work later."""
