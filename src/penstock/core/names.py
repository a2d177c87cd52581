"""Names that users give to queries, flows, operators and sinks: they become parts of paths, and must not be paths."""

from penstock.core.errors import PenstockError

#: Folders that Penstock makes beside those of sinks and operators.
_TAKEN = ("_staging", "_dead_letters", "_owner.json")


def check_name(name: object, what: str) -> str:
    """The name, or one sentence on why it cannot be one.

    >>> check_name("word counts", "sink")
    'word counts'
    >>> check_name("../../x", "sink")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: A sink cannot be called '../../x': a name is no path; leave out slashes and leading dots.
    """
    if not isinstance(name, str) or not name.strip():
        raise PenstockError(f"A {what} needs a name, not {name!r}.")
    if "/" in name or "\\" in name or name.startswith("."):
        raise PenstockError(
            f"A {what} cannot be called {name!r}: a name is no path; leave out slashes and leading dots."
        )
    if not name.isprintable() or len(name.encode()) > 100:
        raise PenstockError(
            f"A {what} cannot be called {name[:40]!r}: a name has at most 100 bytes and no control characters."
        )
    if name in _TAKEN:
        raise PenstockError(
            f"A {what} cannot be called {name!r}, which Penstock uses itself; take another name."
        )
    return name
