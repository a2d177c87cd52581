"""One committed version of a run's state, as it is written down."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock import __version__
from penstock.core.errors import PenstockError
from penstock.spark.runtime.damage import DamagedError
from penstock.spark.runtime.durable import read_json
from penstock.spark.runtime.locations import Location

SCHEMA = 1


@dataclass(frozen=True)
class Publication:
    """A finished file that waits under ``staged`` and becomes visible as ``final`` once its batch is committed.

    Both are relative to an output folder of the run, which goes by its role: folders may move between two starts.
    """

    staged: str
    final: str
    #: ``output``, ``late``, ``dead letters`` or ``sink NAME``; empty for absolute paths, as version 0.1 wrote them.
    folder: str = ""


@dataclass(frozen=True)
class Manifest:
    """One committed version: all there is to know to go on from here."""

    batch: int
    state: Mapping[str, Any]
    files: Sequence[str] = ()
    outputs: Sequence[Publication] = ()
    #: Role -> where the output folder was, for a start that does not name it.
    folders: Mapping[str, str] = field(default_factory=dict)
    #: Where the next batch begins, in a run that reads its source itself; Spark's own log has it otherwise.
    offset: Mapping[str, Any] | None = None
    #: Where the batch itself began, in such a run.
    start: Mapping[str, Any] | None = None
    #: Output files that are to become visible with a later batch, and since when the first of them waits.
    waiting: Sequence[Publication] = ()
    since: float | None = None
    #: How often the batch was committed before, with less in it; what is sent on goes by batch and round.
    round: int = 0
    #: The last run that went on from here, in an object store: one that has the version as it was cannot put it again.
    taken: str = ""
    schema: int = field(default=SCHEMA)
    #: The version of Penstock that wrote it; empty: 0.1.
    version: str = field(default=__version__)

    def to_text(self) -> str:
        """JSON, with a checksum of all the rest in front."""
        told = asdict(self)
        if not self.taken:
            del told["taken"]  # versions that do not know it can go on reading folders
        body = json.dumps(told, separators=(",", ":"))
        return f'{{"checksum":"{_checksum(body)}",{body[1:]}'

    @classmethod
    def read(cls, path: Location) -> "Manifest":
        """The manifest in a file, or one sentence on why it cannot be used."""
        raw = read_json(path)
        if raw.get("schema") != SCHEMA:
            raise PenstockError(
                f"The checkpoint file '{path}' was written by another version of Penstock "
                f"({raw.get('version') or 'unknown'}, schema {raw.get('schema')}; this is {__version__}, which reads schema {SCHEMA}); "
                "go on with that version, or start with a new checkpoint folder."
            )
        checksum = raw.pop("checksum", None)  # version 0.1 had none
        if checksum is not None and checksum != _checksum(json.dumps(raw, separators=(",", ":"))):
            raise DamagedError(f"the file '{path}' is damaged")
        try:
            files = {k: [Publication(**o) for o in raw.get(k, ())] for k in ("outputs", "waiting")}
            return cls(**{"version": "", **raw, **files})
        except (TypeError, KeyError):
            raise DamagedError(f"the file '{path}' is damaged") from None


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
