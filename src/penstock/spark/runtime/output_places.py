"""The meaning of ``output=``, ``late=`` and ``dead_letters=``: folders, or outboxes of topics and tables."""

import os
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.core.stores import StorePath
from penstock.spark.runtime.folders import DEAD_LETTERS, OutputFolder
from penstock.spark.runtime.locations import Location, location
from penstock.spark.runtime.outbox import Destination, Outbox

Place = str | Path | StorePath | Destination


class OutputPlaces:
    """Makes the folders of one run; rows for topics and tables wait in the checkpoint."""

    def __init__(self, checkpoint: str | Location, output: Place | None) -> None:
        self._checkpoint, self._output = checkpoint, output
        self.outboxes: list[Outbox] = []
        #: Whose rows go where, by the folder's real path.
        self._taken: dict[str, str] = {}

    def made(self, where: Place, role: str) -> OutputFolder:
        """The folder that tasks write to."""
        if not isinstance(where, Destination):
            return self._folder(where, role)
        outbox = Outbox.made(where, role, self._checkpoint)
        self.outboxes.append(outbox)
        return outbox.folder

    def results(self, role: str) -> OutputFolder:
        """Where results go; into the checkpoint, for a moment, where a function takes them."""
        return self.made(self._output or self._checkpoint, role)

    def dead_letters(self, given: Place | None) -> OutputFolder:
        """Where rows go that cannot be used: as given, or in the output folder, or, without one, in the checkpoint."""
        if given:
            return self.made(given, "dead-letter")
        base = (
            self._checkpoint
            if self._output is None or isinstance(self._output, Destination)
            else self._output
        )
        return self._folder(location(base) / DEAD_LETTERS, "dead-letter")

    def _folder(self, where: str | Location, role: str) -> OutputFolder:
        """A folder for rows of one kind: files of two kinds would have the same names, and each sweep the other's away."""
        place = location(where, role)
        key = str(place) if isinstance(place, StorePath) else os.path.realpath(place)
        other = self._taken.setdefault(key, role)
        if other != role:
            raise PenstockError(
                f"The {other} folder and the {role} folder of a run cannot be the same one, '{place}'; name two folders."
            )
        return OutputFolder.made(place, role)
