"""A journal in an object store, where nothing can be appended to: parts with numbers, put again as they grow.

``s3://bucket/journal.jsonl`` is kept as ``journal.000001.jsonl`` and so on. The part at hand is put every few seconds and
at the end; a crash loses what was recorded since. No commit depends on a journal.
"""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.journal import Journal, unusual
from penstock.core.records import SCHEMA
from penstock.core.stores import StorePath, check_store, remove_objects
from penstock.core.tables import Tables, parts_in_store, read

#: Bytes at which a part is full, parts that are kept, and seconds between two puts of a part that grows.
PART_BYTES, PARTS, SECONDS = 1 << 20, 256, 5.0


class StoreJournal(Journal):
    """Keeps the records of a run in an object store; a run that starts again begins a new part."""

    def __init__(
        self, path: str | StorePath, run: Mapping[str, Any] | None = None, seconds: float = SECONDS
    ) -> None:
        self.path = path if isinstance(path, StorePath) else StorePath.of(path)
        self._header = {"kind": "run", "schema": SCHEMA, **(run or {})}
        self._encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=unusual).encode
        check_store(self.path.parent, "journal")
        before = parts_in_store(self.path)
        self._number = int(Path(before[-1].stem).suffix[1:]) if before else 0
        self._lines, self._size, self._changed = list[bytes](), 0, False
        self._full = list[tuple[StorePath, bytes]]()  # parts that are to be put
        self._lock = threading.Lock()  # of what is recorded
        self._putting = threading.Lock()  # an older state of a part must not come after a newer one
        self._begin({})
        self.flush()  # a run that dies early has been there
        self._closed = threading.Event()
        self._failure: PenstockError | None = None
        self._thread = threading.Thread(target=self._keep_putting, args=(seconds,), daemon=True)
        self._thread.start()

    def __str__(self) -> str:
        return str(self.path)

    def put(self, record: dict[str, Any]) -> None:
        """Take one record; it is in the store a few seconds later."""
        if self._closed.is_set():
            raise PenstockError(f"The journal {self.path} is closed; open a new one.")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        with self._lock:
            self._append(record)
            full = self._size >= PART_BYTES
            if full:
                self._full.append((self._part(), b"".join(self._lines)))
                self._begin({"continued": True})
        if full:
            self.flush()
            remove_objects(parts_in_store(self.path)[:-PARTS])

    def flush(self) -> None:
        """Put what was not put yet; what fails is put the next time."""
        with self._putting:
            while self._full:
                part, data = self._full[0]
                part.write_bytes(data)
                del self._full[0]
            with self._lock:
                data, part, changed = b"".join(self._lines), self._part(), self._changed
                self._changed = False
            try:
                if changed:
                    part.write_bytes(data)
            except BaseException:
                self._changed = True
                raise

    def tables(self) -> Tables:
        """What was recorded so far, as :func:`penstock.core.journal.read` gives it."""
        self.flush()
        return read(str(self.path))

    def close(self) -> None:
        """Put the rest; further records are an error."""
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self.flush()

    def _begin(self, more: Mapping[str, Any]) -> None:
        self._number, self._size = self._number + 1, 0
        self._lines.clear()
        self._append({**self._header, **more})

    def _append(self, record: Mapping[str, Any]) -> None:
        line = (self._encode(record) + "\n").encode()
        self._lines.append(line)
        self._size, self._changed = self._size + len(line), True

    def _part(self) -> StorePath:
        return self.path.with_suffix(f".{self._number:06d}{Path(self.path.name).suffix}")

    def _keep_putting(self, seconds: float) -> None:
        while not self._closed.wait(seconds):
            try:
                self.flush()
            except PenstockError as error:  # told with the next record
                self._failure = error
