"""State files of an object store on the worker's own disk: what was written or read here need not be fetched again.

A file never changes under its name, so a copy is good as long as it is there. What was used longest ago goes when the
cache is full; ``PENSTOCK_STATE_CACHE`` names its folder (one in the machine's temporary folder by default), and
``PENSTOCK_STATE_CACHE_MB`` its size (2,048).
"""

import contextlib
import os
import tempfile
import uuid
import zlib
from hashlib import blake2b
from pathlib import Path

from penstock.core.stores import StorePath
from penstock.spark.runtime.damage import DamagedError, fits

#: Files kept between two looks at the size of the cache.
LOOK_EVERY = 64
_kept = 0


def cached(place: StorePath) -> str:
    """The path of a file's copy on this disk; it is fetched where there is none."""
    path = path_of(place)
    try:
        os.utime(path)  # it was used now
    except FileNotFoundError:
        _fetch(place, path)
    return str(path)


def path_of(place: StorePath) -> Path:
    """Where the copy of a file is, or would be."""
    folder = _folder() / blake2b(str(place.parent).encode(), digest_size=8).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / place.name


def keep(written: Path, place: StorePath) -> None:
    """Keep a file that was written here and put into the store."""
    os.replace(written, path_of(place))
    _look()


def _fetch(place: StorePath, path: Path) -> None:
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        raise DamagedError(f"the file '{place}' is missing") from None
    if not fits(place.name, zlib.crc32(data)):
        raise DamagedError(f"the file '{place}' is damaged")
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)
    _look()


def _look() -> None:
    global _kept
    _kept += 1
    if _kept % LOOK_EVERY == 0:
        trim(_folder(), int(os.environ.get("PENSTOCK_STATE_CACHE_MB", "2048")) << 20)


def trim(folder: Path, most: int) -> None:
    """Remove what was used longest ago, down to four fifths, where there are more bytes than ``most``."""
    files = []
    for path in folder.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            files.append((status.st_mtime, status.st_size, path))
    size = sum(found[1] for found in files)
    if size <= most:
        return
    for _, own, path in sorted(files):
        if size <= most * 4 // 5:
            return
        path.unlink(missing_ok=True)  # whoever has it mapped keeps what it has
        size -= own


def _folder() -> Path:
    named = os.environ.get("PENSTOCK_STATE_CACHE")
    return Path(named or f"{tempfile.gettempdir()}/penstock-state-{os.getuid()}")
