"""Functions that are told of something; one that raises costs a warning and nothing else."""

from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.careful_journal import in_words, log

T = TypeVar("T")


class Listeners(Generic[T]):
    """Who is told; ``warn`` gets the words about one that failed.

    >>> heard, told = [], []
    >>> listeners = Listeners(told.append)
    >>> for listener in (lambda value: 1 / 0, heard.append):
    ...     listeners.add(listener)
    >>> listeners.tell("news")
    >>> heard, told
    (['news'], ['The listener <lambda> failed: ZeroDivisionError: division by zero'])
    """

    def __init__(self, warn: Callable[[str], None] = log.warning) -> None:
        self._warn = warn
        self._all: list[Callable[[T], object]] = []

    def add(self, listener: Callable[[T], object]) -> None:
        """One more."""
        self._all.append(listener)

    def __bool__(self) -> bool:
        return bool(self._all)

    def tell(self, value: T) -> None:
        """Call all of them, in the order in which they came."""
        for listener in tuple(self._all):
            try:
                listener(value)
            except Exception as error:  # noqa: BLE001 - listeners are user code beside the data path
                name = getattr(listener, "__name__", type(listener).__name__)
                self._warn(f"The listener {name} failed: {in_words(error)}")
