"""Where a stream began, in a run that reads its source itself: asked once, and written down before anything is read.

A source may begin with what comes next, as Kafka's does. The first batch, whose manifest says where it began, comes with
the first rows; a run that ended before would ask again, and rows that came meanwhile would belong to nobody.
"""

import json
from collections.abc import Callable
from typing import Any

from penstock.core.stores import StorePath
from penstock.spark.runtime.durable import read_json, replace_text
from penstock.spark.runtime.locations import Location


def known_first(checkpoint: Location) -> dict[str, Any] | None:
    """Where the stream of a checkpoint began; None where nobody has asked yet."""
    file = _file(checkpoint)
    return read_json(file) if file.exists() else None


def kept_first(checkpoint: Location, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Where the stream of a checkpoint began, or begins now."""
    file = _file(checkpoint)
    if not file.exists():
        text = json.dumps(ask())
        if isinstance(file, StorePath):
            file.create(text.encode())  # the first of two runs wins
        else:
            replace_text(file, text)
    return read_json(file)


def _file(checkpoint: Location) -> Location:
    return checkpoint / "penstock" / "first_offset.json"
