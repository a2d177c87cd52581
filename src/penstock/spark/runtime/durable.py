"""Files that survive a power cut: on disk before anything names them, and recognised when they were damaged.

Tasks write their files without waiting for the disk. The driver forces all files of a batch to it at once, just before
the commit: side by side they take little longer than one alone.
"""

import json
import os
import uuid
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.core.stores import StorePath
from penstock.spark.runtime import state_cache
from penstock.spark.runtime.damage import DamagedError
from penstock.spark.runtime.locations import Location, location


class ChecksummedFile:
    """A new file that is written once and named at its end, when its checksum is known.

    The name is ``PREFIX.CHECKSUM.EXTENSION``, so whoever knows the name can tell whether the file is whole. One for an
    object store is written on this disk first, where its copy stays.
    """

    def __init__(self, folder: str | Path | StorePath, prefix: str, extension: str) -> None:
        self._folder, self._prefix, self._extension = location(folder), prefix, extension
        temporary = f".{prefix}-{uuid.uuid4().hex[:8]}.tmp"
        at = self._folder / temporary
        self._path = state_cache.path_of(at) if isinstance(at, StorePath) else at
        self._file = open(self._path, "wb")  # noqa: SIM115 - closed by commit
        self._checksum = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._checksum = zlib.crc32(data, self._checksum)
        return self._file.write(data)

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Nothing: the file is closed when it gets its name."""

    def commit(self) -> str:
        """Give the file its name, which is returned."""
        self._file.close()
        name = f"{self._prefix}.{self._checksum:08x}.{self._extension}"
        target = self._folder / name
        if isinstance(target, StorePath):
            target.write_bytes(self._path)
            state_cache.keep(self._path, target)
        else:
            os.replace(self._path, target)
        return name


def write_text(path: Path, text: str) -> None:
    """Write a small file and force it to the disk."""
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_text(path: Location, text: str) -> None:
    """Write a small file so that it is there as a whole or not at all."""
    if isinstance(path, StorePath):
        path.write_text(text)
        return
    temporary = path.with_name(path.name + ".tmp")
    write_text(temporary, text)
    os.replace(temporary, path)
    sync_all([path.parent])


def sync_all(paths: Iterable[str | Location]) -> None:
    """Force files, and the names in folders, to the disk; a store has done so when it answers."""
    listed = [str(path) for path in paths if not isinstance(path, StorePath)]
    if len(listed) == 1:
        _sync(listed[0])
    elif listed:
        with ThreadPoolExecutor(min(16, len(listed)), "penstock-sync") as pool:
            list(pool.map(_sync, listed))


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if not os.path.isdir(path):  # some file systems of networks cannot sync folders, and need not
            raise
    finally:
        os.close(handle)


def read_json(path: Location) -> dict[str, Any]:
    """The object in a JSON file, or one sentence that names the file."""
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found
    except FileNotFoundError:
        raise DamagedError(f"the file '{path}' is missing") from None
    except (ValueError, OSError) as error:
        raise DamagedError(f"the file '{path}' cannot be read ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
