"""State versions by batch, with one atomic commit.

A checkpoint folder holds Spark's own offsets beside ours::

    CHECKPOINT/spark/                      Spark's offset and commit logs
    CHECKPOINT/penstock/identity.json      which query this state belongs to
    CHECKPOINT/penstock/commits/0..12.json one manifest a batch
    CHECKPOINT/penstock/state/             state files, named by batch and attempt, never changed in place

A manifest names every file that makes up its version, the small state of the driver, and the output files that
become visible with it. Writing it under a temporary name and renaming it *is* the commit: before it nothing of a
batch counts, after it everything does. Output files are moved into place after the commit; a crash in between is
mended at the next start, since the manifest says what was owed.
"""

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from penstock.core.errors import PenstockError

SCHEMA = 1
KEPT_VERSIONS = 2
SWEEP_EVERY = 100


@dataclass(frozen=True)
class Publication:
    """A finished file that waits under ``staged`` and becomes visible as ``final`` once its batch is committed."""

    staged: str
    final: str

    def publish(self) -> None:
        """Move the file into place; done already is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.staged, self.final)


@dataclass(frozen=True)
class Manifest:
    """One committed version: all there is to know to go on from here."""

    batch: int
    state: Mapping[str, Any]
    files: Sequence[str] = ()
    outputs: Sequence[Publication] = ()
    schema: int = field(default=SCHEMA)


class Checkpoint:
    """The folder of one query's committed versions; one process at a time may hold it."""

    def __init__(self, folder: str | Path, identity: Mapping[str, Any]) -> None:
        self.folder = Path(local_path(folder, "checkpoint"))
        self.spark_folder = self.folder / "spark"
        self.state_folder = self.folder / "penstock" / "state"
        self._commits = self.folder / "penstock" / "commits"
        self._identity_file = self.folder / "penstock" / "identity.json"
        make_folder(self.state_folder, "checkpoint")
        make_folder(self._commits, "checkpoint")
        self._lock = self._hold()
        try:
            self._claim(json.loads(json.dumps(identity)))
        except BaseException:
            self.close()
            raise

    def latest(self) -> Manifest | None:
        """The last committed version, or None in a new checkpoint."""
        batches = self._batches()
        return self.read(batches[-1]) if batches else None

    def read(self, batch: int) -> Manifest:
        """The manifest of one batch."""
        raw = json.loads(self._manifest(batch).read_text())
        if raw.get("schema") != SCHEMA:
            raise PenstockError(
                f"The checkpoint '{self.folder}' was written by another version of Penstock "
                f"(schema {raw.get('schema')}, this one reads {SCHEMA}); start with a new checkpoint folder."
            )
        raw["outputs"] = [Publication(**o) for o in raw["outputs"]]
        return Manifest(**raw)

    def commit(self, manifest: Manifest) -> None:
        """Make a version the latest one and its output visible, then drop what no kept version needs."""
        target = self._manifest(manifest.batch)
        crash_point("before-commit", manifest.batch)
        temporary = target.with_suffix(".tmp")
        with open(temporary, "w") as file:
            json.dump(asdict(manifest), file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        crash_point("during-commit", manifest.batch)
        os.replace(temporary, target)
        crash_point("after-commit", manifest.batch)
        self.publish(manifest)
        crash_point("after-publish", manifest.batch)
        self._prune(manifest)

    def publish(self, manifest: Manifest) -> None:
        """Move the committed output files into place; safe to repeat."""
        for output in manifest.outputs:
            output.publish()

    def recover(self) -> Manifest | None:
        """At a start: finish what the last commit owed, remove what was never committed."""
        latest = self.latest()
        if latest is not None:
            self.publish(latest)
        for leftover in self._commits.glob("*.tmp"):
            leftover.unlink(missing_ok=True)
        self._sweep()
        return latest

    def close(self) -> None:
        """Let another process have the folder."""
        self._lock.close()

    def _manifest(self, batch: int) -> Path:
        return self._commits / f"{batch:012d}.json"

    def _batches(self) -> list[int]:
        return sorted(int(p.stem) for p in self._commits.glob("*.json"))

    def _prune(self, newest: Manifest) -> None:
        outdated = [b for b in self._batches() if b <= newest.batch - KEPT_VERSIONS]
        if not outdated:
            return
        kept = self._referenced()
        for batch in outdated:
            for name in set(self.read(batch).files) - kept:
                (self.state_folder / name).unlink(missing_ok=True)
            self._manifest(batch).unlink(missing_ok=True)
        if newest.batch % SWEEP_EVERY == 0:
            self._sweep()

    def _referenced(self) -> set[str]:
        return {name for batch in self._batches()[-KEPT_VERSIONS:] for name in self.read(batch).files}

    def _sweep(self) -> None:
        """Remove state files of attempts that failed."""
        kept = self._referenced()
        for path in self.state_folder.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _hold(self) -> IO[str]:
        lock = open(self.folder / "penstock" / "lock", "w")  # noqa: SIM115 - held as long as the run lives
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise PenstockError(
                f"The checkpoint '{self.folder}' is in use by another running query; stop that one or name another folder."
            ) from None
        return lock

    def _claim(self, identity: Mapping[str, Any]) -> None:
        if not self._identity_file.exists():
            if any(self.spark_folder.glob("offsets/*")):
                raise PenstockError(
                    f"The folder '{self.folder}' holds offsets of a Spark query but no state of Penstock's; name a new checkpoint folder."
                )
            temporary = self._identity_file.with_suffix(".tmp")
            temporary.write_text(json.dumps(identity, indent=1))
            os.replace(temporary, self._identity_file)
            return
        before = json.loads(self._identity_file.read_text())
        for key in {**before, **identity}:
            if before.get(key) != identity.get(key):
                raise PenstockError(
                    f"The checkpoint '{self.folder}' belongs to another query: its {key} is {_short(before.get(key))}, "
                    f"this one's is {_short(identity.get(key))}; name a new checkpoint folder."
                )


def local_path(path: str | Path, what: str) -> str:
    """A path on a file system that all workers share and that can rename; object stores are refused."""
    text = str(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "://" in text:
        raise PenstockError(
            f"The {what} folder '{text}' is not on a mounted file system; name a folder that the driver and all executors can mount."
        )
    return str(Path(text).absolute())


def make_folder(folder: Path, what: str) -> None:
    """Create a folder, or say in one sentence why that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PenstockError(
            f"Cannot write to the {what} folder '{folder}' ({error.strerror}); name a folder you may write to."
        ) from None


def crash_point(name: str, batch: int) -> None:
    """Kill this process here if ``PENSTOCK_CRASH_AT`` is ``NAME:BATCH``: how the recovery tests hit an exact line."""
    if os.environ.get("PENSTOCK_CRASH_AT") == f"{name}:{batch}":
        os.kill(os.getpid(), signal.SIGKILL)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
