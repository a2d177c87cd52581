"""Errors of sources: of one that may come back, and of one that Spark read."""

import re

from penstock.core.errors import PenstockError

_OURS = re.compile(r"^penstock\.[\w.]*\.(\w*Error): (.+)$", re.MULTILINE)


class SourceAwayError(PenstockError):
    """A source does not answer now; nothing is lost, and the same batch may work later."""


def told_by_source(error: BaseException) -> PenstockError | None:
    """The sentence of an error of ours inside a source that Spark read, out of Spark's report of it.

    >>> told_by_source(ValueError("failed: Traceback\\npenstock.x.GoneError: No topic.\\n SQLSTATE: 38000"))
    PenstockError('No topic.')
    >>> told_by_source(ValueError("failed: Traceback\\npenstock.x.SourceAwayError: No broker.\\n SQLSTATE: 38000"))
    SourceAwayError('No broker.')
    >>> told_by_source(ValueError("something else"))
    """
    found = _OURS.findall(str(error))
    if not found:
        return None
    kind, sentence = found[-1]
    return SourceAwayError(sentence) if kind == SourceAwayError.__name__ else PenstockError(sentence)
