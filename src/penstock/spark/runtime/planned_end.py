"""Where a batch ends, written down before it is read: for runs whose function sees rows before the commit.

Such a function is promised the same rows under the same number after a crash. Where Spark delivers, its log of offsets
keeps that; a run that reads its source itself has the end of a batch in the manifest, which comes after the function, and
would plan the batch anew, up to what has come meanwhile.
"""

import json
from typing import Any

from penstock.core.stores import StorePath
from penstock.spark.runtime.durable import read_json, replace_text
from penstock.spark.runtime.locations import Location, remove


def kept_end(checkpoint: Location, batch: int, end: dict[str, Any]) -> dict[str, Any]:
    """Where a batch ends: as it was planned first, which is now where nobody has planned it."""
    file = _file(checkpoint, batch)
    if not file.exists():
        text = json.dumps(end)
        if isinstance(file, StorePath):
            file.create(text.encode())  # the first of two runs wins
        else:
            replace_text(file, text)
        remove([_file(checkpoint, batch - 1)])  # that one is committed
    return read_json(file)


def _file(checkpoint: Location, batch: int) -> Location:
    return checkpoint / "penstock" / "commits" / f"{batch:012d}.planned"
