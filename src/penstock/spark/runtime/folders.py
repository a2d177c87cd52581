"""Folders of finished files, and the place in each of them where files wait for the commit of their batch."""

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from penstock.core.errors import PenstockError
from penstock.core.stores import StorePath
from penstock.spark.runtime.durable import read_json, sync_all
from penstock.spark.runtime.locations import Location, location, prepare, remove
from penstock.spark.runtime.manifest import Publication
from penstock.spark.runtime.paths import STAGING

DEAD_LETTERS = "_dead_letters"
OWNER = "_owner.json"

#: Names of output files; the first number is the batch with which a file became visible.
_NAMES = re.compile(
    r"part-(\d{9})-(?:settled-)?\d{4}\.parquet"  # answers of a query
    r"|part-(\d{12})-[0-9a-f]{6}-\d+-\d+\.parquet"  # its late and unusable rows
    r"|(\d{12})(?:-\d{12}){1,2}-[0-9a-f]{8}\.parquet"  # rows of a flow
)


@dataclass(frozen=True)
class OutputFolder:
    """A folder whose files become visible with the commit of their batch.

    ``role`` is what the folder is to the run: a manifest names its files by it, since folders may move.

    >>> OutputFolder("/data/out", "output").publication("/data/out/_staging/x", "part-1.parquet").final
    'part-1.parquet'
    """

    path: str
    role: str

    @classmethod
    def made(cls, path: str | Location, role: str) -> "OutputFolder":
        """Create the folder, or say in one sentence why that cannot be done."""
        place = location(path, role)
        prepare(place / STAGING, role)
        return cls(str(place), role)

    @property
    def place(self) -> Location:
        """The folder itself."""
        return location(self.path, self.role)

    @property
    def in_store(self) -> bool:
        """Whether it is in an object store."""
        return isinstance(self.place, StorePath)

    @property
    def staging(self) -> str:
        """Where files wait."""
        return f"{self.path}/{STAGING}"

    def publication(self, staged: str, name: str) -> Publication:
        """A waiting file and the name it is to have."""
        return Publication(staged.removeprefix(f"{self.path}/"), name, self.role)

    def claim(self, owner: str, checkpoint: Location, new: bool) -> None:
        """Make the checkpoint ``owner`` the only one that writes here, or say who is.

        A ``new`` checkpoint may not take files over that nobody owns: their names could be its own ones.
        """
        file = self.place / OWNER
        if not file.exists():
            if new and any(True for _ in self._files()):
                raise PenstockError(
                    f"The {self.role} folder '{self.path}' holds files of another run; name another folder, "
                    "or empty this one if they are no longer needed."
                )
            self._take(file, owner, checkpoint)
        found = read_json(file)
        if found.get("owner") != owner:
            raise PenstockError(
                f"The {self.role} folder '{self.path}' belongs to the run with the checkpoint '{found.get('checkpoint')}'; "
                "name another folder, or empty this one if that run is over."
            )

    def _take(self, file: Location, owner: str, checkpoint: Location) -> None:
        """Write the owner down; the first of two who try at the same time wins."""
        text = json.dumps({"owner": owner, "checkpoint": str(checkpoint)})
        if isinstance(file, StorePath):
            file.create(text.encode())
            return
        temporary = file.with_name(f"{OWNER}.{owner}.tmp")
        temporary.write_text(text)
        try:
            os.link(temporary, file)
            sync_all([self.path])
        except FileExistsError:
            pass  # whose it is will be seen by whoever reads it
        finally:
            temporary.unlink(missing_ok=True)

    def sweep(self, kept: Collection[str] = (), until: int | None = None) -> None:
        """Remove what waits to be committed and never will be: all but some names, or only up to a batch."""
        waiting: list[Location] = [*(self.place / STAGING).iterdir()]
        remove(f for f in waiting if f"{STAGING}/{f.name}" not in kept and is_of_batch(f.name, until))

    def remove_after(self, batch: int) -> None:
        """Remove the files of all batches after one: they will be run again."""
        remove([path for path, number in self._files() if number > batch])

    def _files(self) -> Iterator[tuple[Location, int]]:
        """Output files here, and in the folders of operators, with their batches."""
        for path in (*self.place.glob("*"), *self.place.glob("*/*")):
            found = _NAMES.fullmatch(path.name)
            # The folder of dead letters has this name itself; in an output folder it is another one, with files of its own.
            own = path.parent == self.place or path.parent.name not in (STAGING, DEAD_LETTERS)
            if found and own:
                yield path, int(next(filter(None, found.groups())))


def is_of_batch(name: str, until: int | None) -> bool:
    """Whether a file that a batch wrote is of one up to ``until``; any file, where that is None.

    >>> is_of_batch("000000000007-ab12cd-0.parquet", 7), is_of_batch("000000000007-ab12cd-0.parquet", 6)
    (True, False)
    """
    number = name.lstrip(".")[:12]
    return until is None or (number.isdigit() and int(number) <= until)
