"""The one exception a user is meant to see."""

from collections.abc import Iterable
from difflib import get_close_matches


class PenstockError(ValueError):
    """A mistake the user can mend; its message is one sentence: what is wrong and what to do.

    The command line prints the sentence without a stack trace and ends with code 2.
    """


class TimedOutError(PenstockError):
    """Something did not end in time: nothing said no, and another try may go through."""


def unknown(kind: str, name: str, known: Iterable[str]) -> PenstockError:
    """The error for a name that is not one of the known ones.

    >>> raise unknown("policy", "Statc", ["Static", "Threshold"])
    Traceback (most recent call last):
        ...
    penstock.core.errors.PenstockError: Unknown policy 'Statc'; did you mean 'Static'?
    """
    names = sorted(known)
    folded = {n.lower(): n for n in names}
    close = get_close_matches(name, names, n=1) or get_close_matches(name.lower(), folded, n=1)
    hint = f"did you mean '{folded[close[0].lower()]}'?" if close else f"choose one of {', '.join(names)}."
    return PenstockError(f"Unknown {kind} '{name}'; {hint}")
