"""Reads a journal that may still be written: what is there, then what comes."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.records import check
from penstock.page.story import Story

#: Seconds between two looks at the file, and without a new line until a run counts as recorded.
EVERY, QUIET = 0.5, 30.0


class JournalFollower:
    """Takes the lines of a journal into a story, in a thread of its own once started."""

    def __init__(self, path: Path, story: Story) -> None:
        self._path, self._story = path, story
        self._rest, self._offset, self._quiet = b"", 0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-follow", daemon=True)

    def start(self) -> "JournalFollower":
        """Begin to follow."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Follow no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def look(self) -> int:
        """Take the lines that came since the last look; how many there were."""
        count = 0
        for record in self._records():
            self._story.take(record)
            count += 1
        return count

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            try:
                came = self.look()
            except PenstockError:
                continue  # a file that is away for a moment is being moved
            self._quiet = 0.0 if came else self._quiet + EVERY
            self._story.told("running" if self._quiet < QUIET else "recorded")

    def _records(self) -> Iterator[dict[str, Any]]:
        """Whole lines that can be used; a torn one is left out, one that is being written waits for its end."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:
                    self._offset, self._rest = 0, b""  # another file by now
                file.seek(self._offset)
                lines = (self._rest + file.read()).split(b"\n")
                self._offset = file.tell()
        except OSError as error:
            raise PenstockError(
                f"The journal {self._path} cannot be read ({error.strerror}); check the path."
            ) from None
        self._rest = lines.pop()
        for line in lines:
            try:
                record = json.loads(line)
                check(record)
            except Exception:  # noqa: BLE001 - whatever a line holds, the next one may be a record
                continue
            yield record
