"""Few large output files instead of many small ones: rows wait, committed, until there is a file's worth of them.

A file that readers may have seen is never touched again: a reader that lists a folder and then opens files could see
its rows twice or not at all, and a stream over the folder would take a rewritten file for a new one. So small files are
put together before anybody sees them. They wait in the staging folder, named by each version's manifest, and become
visible as one file with the commit of a later batch.
"""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.durations import microseconds
from penstock.spark.runtime.arrow_data import of_one_kind, write_parquet
from penstock.spark.runtime.locations import Location, read_parquet, second_name, size_of
from penstock.spark.runtime.manifest import Publication

if TYPE_CHECKING:
    from penstock.spark.runtime.folders import OutputFolder

#: Bytes of waiting files after which they become visible before their time.
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Gathered:
    """What becomes visible with a commit, what goes on waiting, and since when (seconds since 1970)."""

    outputs: Sequence[Publication]
    waiting: Sequence[Publication] = ()
    since: float | None = None


@dataclass(frozen=True)
class Gathering:
    """How long rows may wait, in seconds; 0: not at all."""

    seconds: float = 0.0

    @classmethod
    def of(cls, gather: str | None) -> "Gathering":
        """From words, such as ``"1 minute"``; None: not at all."""
        return cls(0.0 if gather is None else microseconds(gather, "gather") / 1e6)

    def settle(
        self,
        before: Gathered,
        outputs: Sequence[Publication],
        batch: int,
        now: float,
        folders: Mapping[str, "OutputFolder"],
        flush: bool = False,
    ) -> Gathered:
        """What to do with the outputs of a batch, where those of earlier ones may be waiting."""
        own = [o for o in outputs if o.folder in folders]
        others = [o for o in outputs if o.folder not in folders]
        waiting = (*before.waiting, *own)
        if not waiting or (self.seconds == 0 and not before.waiting):
            return Gathered(outputs)
        since = now if before.since is None else before.since
        size = sum(size_of(_path(o, folders)) for o in waiting)
        if not flush and self.seconds and now - since < self.seconds and size < MOST_BYTES:
            return Gathered(others, waiting, since)
        return Gathered([*others, *_joined(waiting, batch, folders)])


def _joined(
    waiting: Sequence[Publication], batch: int, folders: Mapping[str, "OutputFolder"]
) -> list[Publication]:
    """The waiting files as one for each folder; large ones by themselves.

    They stay where they wait: the version before this one may be needed again, and names them.
    """
    groups: dict[tuple[str, str], list[Publication]] = {}
    for one in waiting:
        groups.setdefault((one.folder, os.path.dirname(one.final)), []).append(one)
    made: list[Publication] = []
    for (role, inside), some in groups.items():
        small: list[Publication] = []
        for one in some:
            if size_of(_path(one, folders)) >= MOST_BYTES // 2:
                made.append(_named(_linked(one, folders[role]), batch, inside, len(made)))
            else:
                small.append(one)
        if small:
            wholes = [_linked(small[0], folders[role])] if len(small) == 1 else _merged(small, folders[role])
            for whole in wholes:
                made.append(_named(whole, batch, inside, len(made)))
    return made


def _merged(some: Sequence[Publication], folder: "OutputFolder") -> list[Publication]:
    """One file, or one for each kind of rows: operators with several inputs put aside rows of several kinds."""
    merged = []
    for table in of_one_kind([read_parquet(folder.place / one.staged) for one in some]):
        staged = _new_name(some[0])
        write_parquet(table, folder.place / staged)
        merged.append(Publication(staged, some[0].final, folder.role))
    return merged


def _linked(one: Publication, folder: "OutputFolder") -> Publication:
    """A file under a second name."""
    staged = _new_name(one)
    second_name(folder.place / one.staged, folder.place / staged)
    return Publication(staged, one.final, folder.role)


def _new_name(one: Publication) -> str:
    return f"{os.path.dirname(one.staged)}/gathered-{uuid.uuid4().hex}.parquet"


def _named(one: Publication, batch: int, inside: str, number: int) -> Publication:
    """The file under a name that tells with which batch it became visible."""
    name = f"part-{batch:012d}-{number:06x}-{uuid.uuid4().int >> 66}-0.parquet"
    return Publication(one.staged, os.path.join(inside, name), one.folder)


def _path(one: Publication, folders: Mapping[str, "OutputFolder"]) -> Location:
    return folders[one.folder].place / one.staged
