"""Whose state a checkpoint holds: what makes it unusable for another query, and a name of its own."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.runtime.durable import read_json, replace_text
from penstock.spark.runtime.locations import Location

#: Keys that version 0.1 did not write: a checkpoint without them takes them over.
LATER_KEYS = frozenset({"preference parameters"})

#: What version 0.1 wrote of a flow's operators; they are compared one by one when the flow starts.
OPERATOR = "operator "


def claim(checkpoint: Location, identity: Mapping[str, Any], used: bool) -> None:
    """Write down whose checkpoint this is, or refuse it to another, with what differs.

    ``used`` says whether something was committed here before.
    """
    file = checkpoint / "penstock" / "identity.json"
    identity = json.loads(json.dumps(identity))
    if not file.exists():
        if used:
            raise PenstockError(
                f"The folder '{checkpoint}' holds batches of a Spark query, but not whose they are (there is no file "
                f"'{file}'); restore it, or name a new checkpoint folder."
            )
        replace_text(file, json.dumps(identity, indent=1))
        return
    before = read_json(file)
    added = {key: identity[key] for key in LATER_KEYS if key in identity and key not in before}
    for key in {**before, **identity}:
        if key not in added and not key.startswith(OPERATOR) and before.get(key) != identity.get(key):
            raise PenstockError(
                f"The checkpoint '{checkpoint}' belongs to another query: its {key} is {_short(before.get(key))}, "
                f"this one's is {_short(identity.get(key))}; name a new checkpoint folder."
            )
    if added:
        replace_text(file, json.dumps({**before, **added}, indent=1))


def own_id(checkpoint: Location) -> str:
    """The name by which output folders know their owner; it moves with the checkpoint."""
    file = checkpoint / "penstock" / "id"
    if not file.exists():
        replace_text(file, uuid.uuid4().hex)
    return file.read_text().strip()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
