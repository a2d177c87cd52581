"""A journal that may fail without harm, and the warnings that are told to somebody as well."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from penstock.core.journal import Journal
from penstock.core.tables import Tables

log = logging.getLogger("penstock")


class CarefulJournal(Journal):
    """Writes to another journal; one that cannot be written (a full disk) costs a word of warning and nothing else.

    ``notify`` is told each text once, the log by default. Any thread may write.
    """

    def __init__(self, journal: Journal, notify: Callable[[str], None] | None = None) -> None:
        self.inner, self._notify = journal, notify or log.warning
        self._told = set[str]()
        self._lock = threading.Lock()
        #: Called with each record; what they raise is told like any other trouble.
        self.readers: list[Callable[[dict[str, Any]], object]] = []

    def put(self, record: dict[str, Any]) -> None:
        """Hand the record on."""
        try:
            with self._lock:
                self.inner.put(record)
        except Exception as error:  # noqa: BLE001 - a journal may be the user's own
            self.tell(f"The journal could not be written: {in_words(error)}")
        for reader in tuple(self.readers):
            try:
                reader(record)
            except Exception as error:  # noqa: BLE001 - whoever looks on must not disturb the run
                self.tell(f"A reader of the journal failed: {in_words(error)}")

    def tables(self) -> Tables:
        """What the journal itself has kept so far."""
        return self.inner.tables()

    def warn(self, time: float, source: str, text: str) -> None:
        """Record a warning and tell it."""
        self.warning(time, source, text)
        self.tell(text)

    def tell(self, text: str) -> None:
        """Tell a text that was not told before."""
        with self._lock:
            if text in self._told:
                return
            self._told.add(text)
        try:
            self._notify(text)
        except Exception:
            log.warning("%s", text, exc_info=True)

    def close(self) -> None:
        """Close the journal itself."""
        try:
            self.inner.close()
        except Exception as error:  # noqa: BLE001 - see put
            self.tell(f"The journal could not be closed: {in_words(error)}")


def in_words(error: BaseException) -> str:
    """An error in one line.

    >>> in_words(ValueError("no such thing")), in_words(KeyError())
    ('ValueError: no such thing', 'KeyError')
    """
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
