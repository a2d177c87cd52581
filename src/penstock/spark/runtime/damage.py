"""Files that are not what was written: names carry checksums, by which that is seen."""

import zlib
from collections.abc import Sequence
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.core.stores import StorePath
from penstock.spark.runtime.locations import Location


class DamagedError(PenstockError):
    """A file is not what was written."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{reason[0].upper()}{reason[1:]}; restore it, or start with a new checkpoint folder."
        )


def damages(places: Sequence[Location]) -> str:
    """What is wrong with files that have their checksums in their names, in words; empty where nothing is.

    Those of a store are only looked for here; their checksums are checked by whoever fetches them.
    """
    listed: dict[Location, set[str]] = {}
    for place in places:
        if isinstance(place, StorePath):
            if place.parent not in listed:
                listed[place.parent] = {path.name for path in place.parent.iterdir()}
            if place.name not in listed[place.parent]:
                return f"the file '{place}' is missing"
        elif problem := _damage(place):
            return problem
    return ""


def _damage(path: Path) -> str:
    if not path.exists():
        return f"the file '{path}' is missing"
    found = 0
    with open(path, "rb") as file:
        while some := file.read(1 << 20):
            found = zlib.crc32(some, found)
    return "" if fits(path.name, found) else f"the file '{path}' is damaged"


def fits(name: str, checksum: int) -> bool:
    """Whether a checksum is that in a file's name; names without one, as old versions wrote them, fit any.

    >>> fits("7-ab.0000000c.arrow", 12), fits("7-ab.0000000c.arrow", 13), fits("7-ab.arrow", 13)
    (True, False, True)
    """
    parts = name.rsplit(".", 2)
    return len(parts) < 3 or len(parts[1]) != 8 or parts[1] == f"{checksum:08x}"
