"""Old words and places of names: they work for one more version, with a warning."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def deprecated(old: str, new: str) -> None:
    """Warn the caller's caller that a word has another name now."""
    warnings.warn(
        f"{old} is now {new}; the old word goes with version 0.3.", DeprecationWarning, stacklevel=3
    )


def moved(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package some of whose names (keys) are now had from its modules (values) alone.

    >>> moved("penstock.core", {})("no_such_name")
    Traceback (most recent call last):
    AttributeError: module 'penstock.core' has no attribute 'no_such_name'
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = f"{package}.{homes[name]}"
        deprecated(f"{package}.{name}", f"{home}.{name}")
        return getattr(import_module(home), name)

    return find
