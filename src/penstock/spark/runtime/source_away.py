"""Errors of sources: of one that may come back, and of one that Spark read."""

import re

from penstock.core.errors import PenstockError

_OURS = re.compile(r"^penstock\.[\w.]*\.\w*Error: (.+)$", re.MULTILINE)


class SourceAwayError(PenstockError):
    """A source does not answer now; nothing is lost, and the same batch may work later."""


def told_by_source(error: Exception) -> PenstockError | None:
    """The sentence of an error of ours inside a source that Spark read, out of Spark's report of it.

    >>> told_by_source(ValueError("failed: Traceback\\npenstock.x.AwayError: No broker.\\n SQLSTATE: 38000"))
    PenstockError('No broker.')
    >>> told_by_source(ValueError("something else"))
    """
    found = _OURS.findall(str(error))
    return PenstockError(found[-1]) if found else None
