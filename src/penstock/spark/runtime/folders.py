"""Folders of finished files, and the place in each of them where files wait for the commit of their batch."""

from dataclasses import dataclass
from pathlib import Path

from penstock.spark.runtime.checkpoint import Publication, local_path, make_folder

#: Readers of Spark and Arrow pass over names that begin with an underscore, so what waits is not seen.
STAGING = "_staging"
DEAD_LETTERS = "_dead_letters"


@dataclass(frozen=True)
class OutputFolder:
    """A folder whose files become visible with the commit of their batch.

    >>> OutputFolder("/data/out").publication("/data/out/_staging/x", "part-1.parquet").final
    '/data/out/part-1.parquet'
    """

    path: str

    @classmethod
    def made(cls, path: str | Path, what: str) -> "OutputFolder":
        """Create the folder, or say in one sentence why that cannot be done; ``what`` says what it is for."""
        folder = cls(local_path(path, what))
        make_folder(Path(folder.staging), what)
        return folder

    @property
    def staging(self) -> str:
        """Where files wait."""
        return f"{self.path}/{STAGING}"

    def publication(self, staged: str, name: str) -> Publication:
        """A waiting file and the name it is to have."""
        return Publication(staged, f"{self.path}/{name}")

    def sweep(self) -> None:
        """Remove what waits to be committed and never will be; call after recovery."""
        for file in Path(self.staging).iterdir():
            file.unlink(missing_ok=True)


def dead_letter_folder(
    given: str | Path | None, output: str | Path | None, checkpoint: str | Path
) -> OutputFolder:
    """Where rows go that cannot be used: as given, or in the output folder, or, without one, in the checkpoint."""
    return OutputFolder.made(given or Path(output or checkpoint) / DEAD_LETTERS, "dead-letter")
