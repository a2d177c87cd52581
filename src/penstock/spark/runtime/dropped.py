"""What is kept of a version that was dropped as damaged: which rows its batch had.

Its results may have gone to a topic or a table, under the batch's number. The batch is run again and its results are not
sent again, so it must have the same rows. Spark's log has them where Spark reads the stream; elsewhere the dropped
manifest is the only place, and is kept as ``commits/N.dropped`` until the batch is through again.
"""

from penstock.spark.runtime.damage import DamagedError
from penstock.spark.runtime.durable import replace_text
from penstock.spark.runtime.locations import Location, remove
from penstock.spark.runtime.manifest import Manifest


class DroppedVersions:
    """Dropped manifests in the folder of commits."""

    def __init__(self, commits: Location) -> None:
        self._commits = commits

    def known(self, batch: int, manifest: Location) -> Manifest | None:
        """A version that is to be dropped, where its manifest can be read, or could be when it was dropped before."""
        return _read(manifest) or _read(self._place(batch))

    def keep(self, version: Manifest) -> None:
        """Keep what is known of a version until its batch is through again."""
        replace_text(self._place(version.batch), version.to_text())

    def newest(self, committed: int) -> Manifest | None:
        """The dropped version of the batch that was committed last, or of the next one."""
        kept = (_read(self._place(batch)) for batch in (committed + 1, committed))
        return next((found for found in kept if found is not None), None)

    def forget(self) -> None:
        """The batch is through."""
        remove(self._commits.glob("*.dropped"))

    def _place(self, batch: int) -> Location:
        return self._commits / f"{batch:012d}.dropped"


def _read(place: Location) -> Manifest | None:
    try:
        return Manifest.read(place)
    except DamagedError:
        return None
