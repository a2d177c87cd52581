"""Reads a journal that may still be written: what is there, in all its parts, then what comes."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from penstock.core.errors import PenstockError
from penstock.core.records import SCHEMA, check
from penstock.core.tables import parts_of
from penstock.page.story import Story

#: Seconds between two looks at the file, and since it was last written until a run counts as recorded.
EVERY, QUIET = 0.5, 30.0


class JournalFollower:
    """Takes the lines of a journal into a story, in a thread of its own once started."""

    def __init__(self, path: Path, story: Story) -> None:
        self._path, self._story = path, story
        self._file: BinaryIO | None = None  # stays open, since it becomes a part under another name
        self._rest, self._torn, self._is_journal = b"", 0, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-follow", daemon=True)

    def start(self) -> "JournalFollower":
        """Begin to follow."""
        self._tell_state()
        self._thread.start()
        return self

    def close(self) -> None:
        """Follow no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        if self._file is not None:
            self._file.close()

    def look(self) -> int:
        """Take the lines that came since the last look; how many there were."""
        try:
            count = self._take()
        except OSError as error:
            raise PenstockError(
                f"The journal {self._path} cannot be read ({error.strerror}); check the path."
            ) from None
        if not self._is_journal:
            raise PenstockError(f"{self._path} is no Penstock journal; give a file that a run wrote.")
        return count

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            try:
                self._take()
                self._tell_state()
            except OSError:
                continue  # a file system that is away for a moment
            except PenstockError as error:  # who writes by now is newer than this reader
                self._story.warn(str(error))
                self._story.told("recorded")
                return

    def _tell_state(self) -> None:
        """A file that nobody has written to for a while is a recording."""
        if self._file is not None:
            quiet = time.time() - os.fstat(self._file.fileno()).st_mtime
            self._story.told("running" if quiet < QUIET else "recorded")

    def _take(self) -> int:
        count = torn = 0
        for file in self._files():
            for line in self._whole_lines(file):
                record = record_of(line, self._path)
                if record is None:
                    torn += 1
                    continue
                self._is_journal = self._is_journal or record["kind"] == "run"
                self._story.take(record)
                count += 1
        if torn:
            self._torn += torn
            self._story.warn(unreadable(self._torn))
        return count

    def _files(self) -> Iterator[BinaryIO]:
        """The file at hand and, where it has become a part, those that came after it."""
        # Looked for before the file at hand is read: its end was written before it became a part.
        parts, present = self._newer()
        if self._file is not None:
            yield self._file
        for part in parts:
            try:
                file = part.open("rb")
            except FileNotFoundError:  # the oldest may be dropped
                continue
            yield self._go_on_with(file)
        if present is not None:
            yield self._go_on_with(present)

    def _newer(self) -> tuple[list[Path], BinaryIO | None]:
        """Parts after the file at hand, and the file that is written now; neither where that is the one at hand."""
        if self._file is not None and _leads_to(self._path, self._file):
            return [], None
        # Opened before the parts are listed: a file that becomes one meanwhile is seen twice then, and not never.
        present = self._opened()
        parts = parts_of(self._path)
        if present is not None and any(_leads_to(part, present) for part in parts):
            present.close()
            present = None
        known = [self._file is not None and _leads_to(part, self._file) for part in parts]
        return parts[known.index(True) + 1 if True in known else 0 :], present

    def _opened(self) -> BinaryIO | None:
        """The file that is written now; None in the moment in which it has just become a part."""
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            if self._file is None and not parts_of(self._path):
                raise
            return None

    def _go_on_with(self, file: BinaryIO) -> BinaryIO:
        if self._file is not None:
            self._file.close()
        self._file, self._rest = file, b""
        return file

    def _whole_lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Lines that have their end; one that is being written waits for it."""
        if os.fstat(file.fileno()).st_size < file.tell():
            file.seek(0)  # it is another one by now
            self._rest = b""
        for line in file:
            self._rest += line
            if self._rest.endswith(b"\n"):
                whole, self._rest = self._rest, b""
                if whole != b"\n":
                    yield whole


def record_of(line: bytes, path: str | Path) -> dict[str, Any] | None:
    """The record in a line of a journal, None where it cannot be used; the header of a newer Penstock is refused."""
    try:
        record: dict[str, Any] = json.loads(line)
        check(record)
    except Exception:  # noqa: BLE001 - whatever a line holds, the next one may be a record
        return None
    if record["kind"] == "run" and int(record.get("schema", 0)) > SCHEMA:
        raise PenstockError(
            f"{path} has schema {record['schema']}, this Penstock knows {SCHEMA}; use a newer Penstock."
        )
    return record


def unreadable(lines: int) -> str:
    """What is said of lines that could not be used."""
    told = "1 unreadable line" if lines == 1 else f"{lines} unreadable lines"
    return f"The journal has {told}, left out here."


def _leads_to(path: Path, file: BinaryIO) -> bool:
    """Whether a path leads to a file that is open."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
