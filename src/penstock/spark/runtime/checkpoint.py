"""State versions by batch, with one atomic commit.

A checkpoint folder holds Spark's own offsets beside ours::

    CHECKPOINT/spark/                      Spark's offset and commit logs
    CHECKPOINT/penstock/identity.json      which query this state belongs to
    CHECKPOINT/penstock/id                 the name by which output folders know their owner
    CHECKPOINT/penstock/commits/0..12.json one manifest a batch
    CHECKPOINT/penstock/state/             state files, named by batch and attempt, never changed in place

A manifest names every file that makes up its version, the small state of the driver, and the output files that
become visible with it. All of them are on disk before it. Writing it under a temporary name and renaming it *is* the
commit: before it nothing of a batch counts, after it everything does. Output files are moved into place after the
commit; a crash in between is mended at the next start, since the manifest says what is still to be moved.

A newest version that is damaged (a checksum does not fit, a file is gone) is dropped for the one before it, and Spark's
logs go back with it, so that the batch runs again.
"""

import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from penstock.core.errors import PenstockError
from penstock.spark.runtime import spark_log
from penstock.spark.runtime.durable import (
    DamagedError,
    damage,
    read_json,
    sync_all,
    write_text,
)
from penstock.spark.runtime.folders import OutputFolder, is_of_batch
from penstock.spark.runtime.gathering import Gathered, Gathering
from penstock.spark.runtime.identity import claim, own_id
from penstock.spark.runtime.manifest import Manifest, Publication
from penstock.spark.runtime.milestones import reached
from penstock.spark.runtime.outbox import Outbox
from penstock.spark.runtime.paths import STAGING, local_path, make_folder

KEPT_VERSIONS = 2
SWEEP_EVERY = 100
#: Checkpoint folder -> lets go of it if the run that holds it in this process has ended unnoticed.
_holders: dict[Path, Callable[[], None]] = {}


@dataclass(frozen=True)
class _Kept:
    """What the kept versions name: state files, and output files that wait, by the role of their folder."""

    files: frozenset[str]
    waiting: frozenset[tuple[str, str]]


class Checkpoint:
    """The folder of one query's committed versions; one run at a time may hold it."""

    def __init__(
        self, folder: str | Path, identity: Mapping[str, Any], gathering: Gathering | None = None
    ) -> None:
        self.folder = Path(local_path(folder, "checkpoint"))
        self.spark_folder = self.folder / "spark"
        self.state_folder = self.folder / "penstock" / "state"
        self._commits = self.folder / "penstock" / "commits"
        self._folders: Mapping[str, OutputFolder] = {}
        self._synced: frozenset[str] = frozenset()
        self._gathering, self._gathered = gathering or Gathering(), Gathered(())
        #: What goes on from here to topics and tables once it is committed.
        self.outboxes: Sequence[Outbox] = ()
        self._round = (-1, 0)  # the last batch that was committed, and how often before
        #: What was mended at the start, in one sentence; empty where nothing was.
        self.mended = ""
        make_folder(self.state_folder, "checkpoint")
        make_folder(self._commits, "checkpoint")
        self._lock = self._hold()
        try:
            used = not self.is_new or spark_log.last_commit(self.spark_folder) >= 0
            claim(self.folder, identity, used)
            self.id = own_id(self.folder)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> dict[str, Any]:
        """Whose checkpoint this is, as it was written down at the first start."""
        return read_json(self.folder / "penstock" / "identity.json")

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever committed here."""
        return not self._batches()

    def latest(self) -> Manifest | None:
        """The last committed version, or None in a new checkpoint."""
        batches = self._batches()
        return self.read(batches[-1]) if batches else None

    def read(self, batch: int) -> Manifest:
        """The manifest of one batch."""
        return Manifest.read(self._manifest(batch))

    def commit(self, manifest: Manifest, flush: bool = False) -> None:
        """Make a version the latest one and its output visible, then drop what no kept version needs.

        Output may wait for that of later batches (see :mod:`penstock.spark.runtime.gathering`); ``flush`` lets it not.
        """
        target = self._manifest(manifest.batch)
        reached("before-commit", manifest.batch)
        done = self._gathering.settle(
            self._gathered, manifest.outputs, manifest.batch, time.time(), self._folders, flush
        )
        again = self._round[1] + 1 if self._round[0] == manifest.batch else 0
        manifest = replace(
            manifest, outputs=done.outputs, waiting=done.waiting, since=done.since, round=again
        )
        reached("outputs-gathered", manifest.batch)
        self._sync(manifest)
        manifest = replace(manifest, folders={role: f.path for role, f in self._folders.items()})
        temporary = target.with_suffix(".tmp")
        write_text(temporary, manifest.to_text())
        reached("during-commit", manifest.batch)
        os.replace(temporary, target)
        sync_all([self._commits])
        reached("after-commit", manifest.batch)
        self._published(manifest.batch).unlink(
            missing_ok=True
        )  # a version may be committed again, with more in it
        self._gathered = Gathered((), manifest.waiting, manifest.since)
        self._round = (manifest.batch, manifest.round)
        self.publish(manifest)
        reached("after-publish", manifest.batch)
        self._prune(manifest)

    def flush(self) -> None:
        """Make visible what waits for later batches; for the end of a run."""
        latest = self.latest() if self._gathered.waiting else None
        if latest is not None:
            self.commit(replace(latest, outputs=()), flush=True)

    def _sync(self, manifest: Manifest) -> None:
        """Force to the disk what a version names and the one before did not."""
        new = [self.state_folder / name for name in manifest.files if name not in self._synced]
        known = {(o.folder, o.staged) for o in self._gathered.waiting}
        outputs = [o for o in (*manifest.outputs, *manifest.waiting) if (o.folder, o.staged) not in known]
        staged = [Path(self._path(o.staged, o, manifest)) for o in outputs]
        written = [*new, *staged]
        sync_all([*written, *{path.parent for path in written}])
        self._synced = frozenset(manifest.files)

    @property
    def batches(self) -> list[int]:
        """The batches whose versions are kept."""
        return self._batches()

    def rewrite(self, manifest: Manifest) -> None:
        """Put another manifest in the place of a kept version's, for a run that is stopped."""
        target = self._manifest(manifest.batch)
        write_text(target.with_suffix(".tmp"), manifest.to_text())
        os.replace(target.with_suffix(".tmp"), target)
        sync_all([self._commits])

    def publish(self, manifest: Manifest) -> None:
        """Move the committed output files into place; safe to repeat."""
        done = self._published(manifest.batch).exists()
        for output in manifest.outputs:
            staged, final = (self._path(name, output, manifest) for name in (output.staged, output.final))
            try:
                os.replace(staged, final)
            except FileNotFoundError:
                # Once all were in place, whoever owns the output may take files away.
                if not done and not os.path.exists(final):
                    raise PenstockError(
                        f"Batch {manifest.batch} of the checkpoint '{self.folder}' is committed, but its output file is "
                        f"neither at '{final}' nor at '{staged}'; give start() the folder where it is."
                    ) from None
        self._published(manifest.batch).touch()
        for outbox in self.outboxes:
            outbox.send(manifest, self.id)

    def recover(self, folders: Mapping[str, OutputFolder] | None = None) -> Manifest | None:
        """At a start: finish what the last commit left to move, remove what was never committed.

        ``folders`` are the output folders by their role.
        """
        self._folders = folders or {}
        for folder in self._folders.values():
            folder.claim(self.id, self.folder, self.is_new)
        spark_log.remove_leftovers(self.spark_folder)
        latest = self._sound()
        if latest is not None:
            self.publish(latest)
            self._synced = frozenset(latest.files)
            self._gathered = Gathered((), latest.waiting, latest.since)
            self._round = (latest.batch, latest.round)
            reached("during-recovery", latest.batch)
        for leftover in self._commits.glob("*.tmp"):
            leftover.unlink(missing_ok=True)
        self._sweep()
        return latest

    def close(self) -> None:
        """Let another run have the folder."""
        for outbox in self.outboxes:
            outbox.close()
        self._lock.close()
        _holders.pop(self.folder, None)

    def held_by(self, let_go: Callable[[], None]) -> None:
        """Name what closes this checkpoint if its run has ended; asked when another run wants the folder."""
        _holders[self.folder] = let_go

    def _sound(self) -> Manifest | None:
        """The newest version that is whole; what is after it is dropped and will be run again."""
        batches = self._batches()
        done = spark_log.last_commit(self.spark_folder)
        reason = ""
        for batch in reversed(batches[-KEPT_VERSIONS:]):
            found, problem = self._whole(batch)
            if found is not None:
                if reason or done > batch:
                    self._go_back(batch, reason or f"the file '{self._manifest(batch + 1)}' is missing")
                return found
            reason = reason or problem
        if not reason and done < 0:
            return None
        if batches not in ([0], []) or not spark_log.can_go_back(self.spark_folder, -1):
            reason = reason or f"there is no version in '{self._commits}'"
            raise PenstockError(
                f"The checkpoint '{self.folder}' cannot be used: {reason}, and there is no whole version before it; "
                "restore it, or start with a new checkpoint folder."
            )
        self._go_back(-1, reason or f"the file '{self._manifest(0)}' is missing")
        return None

    def _whole(self, batch: int) -> tuple[Manifest | None, str]:
        """A version whose files are all what was written; or None, and what is wrong."""
        try:
            manifest = self.read(batch)
        except DamagedError as error:
            return None, error.reason
        # Rows for sinks that are functions wait elsewhere, under a path of their own.
        own = [name for name in manifest.files if not os.path.isabs(name)]
        paths = [self.state_folder / name for name in own]
        paths += [Path(self._path(o.staged, o, manifest)) for o in manifest.waiting]
        problem = next(filter(None, map(damage, paths)), "")
        return (None, problem) if problem else (manifest, "")

    def _go_back(self, batch: int, reason: str) -> None:
        """Drop all versions after ``batch``, with their output and Spark's entries for them."""
        if not spark_log.can_go_back(self.spark_folder, batch):
            raise PenstockError(
                f"The checkpoint '{self.folder}' cannot be used: {reason}, and Spark's log no longer has the offsets of "
                f"batch {batch + 1}; restore it, or start with a new checkpoint folder."
            )
        for folder in self._folders.values():
            folder.remove_after(batch)
        for later in self._batches():
            if later > batch:
                self._manifest(later).unlink(missing_ok=True)
                self._published(later).unlink(missing_ok=True)
        spark_log.go_back(self.spark_folder, batch)
        self.mended = (
            f"The newest version of the checkpoint '{self.folder}' cannot be used: {reason}; "
            f"batch {batch + 1} is run again from the version before it."
        )

    def _path(self, name: str, output: Publication, manifest: Manifest) -> str:
        """Where a file of an output folder is now."""
        if not output.folder:
            return name  # absolute, as version 0.1 wrote it
        folder = self._folders.get(output.folder)
        base = manifest.folders[output.folder] if folder is None else folder.path
        return os.path.join(base, name)

    def _manifest(self, batch: int) -> Path:
        return self._commits / f"{batch:012d}.json"

    def _published(self, batch: int) -> Path:
        """Says that all output files of a version are in place."""
        return self._commits / f"{batch:012d}.published"

    def _batches(self) -> list[int]:
        return sorted(int(p.stem) for p in self._commits.glob("*.json") if p.stem.isdigit())

    def _prune(self, newest: Manifest) -> None:
        outdated = [b for b in self._batches() if b <= newest.batch - KEPT_VERSIONS]
        if not outdated:
            return
        kept = self._kept()
        for batch in outdated:
            old = self.read(batch)
            for name in set(old.files) - kept.files:
                (self.state_folder / name).unlink(missing_ok=True)
            for o in old.waiting:
                if (o.folder, o.staged) not in kept.waiting:
                    Path(self._path(o.staged, o, old)).unlink(missing_ok=True)
            reached("during-clean-up", newest.batch)
            self._manifest(batch).unlink(missing_ok=True)
            self._published(batch).unlink(missing_ok=True)
        if newest.batch % SWEEP_EVERY == 0:
            self._sweep(newest.batch)

    def _kept(self) -> "_Kept":
        versions = [self.read(batch) for batch in self._batches()[-KEPT_VERSIONS:]]
        return _Kept(
            frozenset(name for version in versions for name in version.files),
            frozenset((o.folder, o.staged) for version in versions for o in version.waiting),
        )

    def _sweep(self, until: int | None = None) -> None:
        """Remove files of attempts that failed: state, and output that was never committed.

        While a run goes on, those of batches up to ``until`` only: the next one may be in work.
        """
        kept = self._kept()
        own = self.state_folder.parent.glob(f"*/{STAGING}/*")  # rows for sinks that are functions
        for path in (*self.state_folder.iterdir(), *own):
            if os.path.relpath(path, self.state_folder) not in kept.files and is_of_batch(path.name, until):
                path.unlink(missing_ok=True)
        for role, folder in self._folders.items():
            folder.sweep({staged for named, staged in kept.waiting if named == role}, until)

    def _hold(self) -> IO[str]:
        if self.folder in _holders:
            _holders[self.folder]()
        lock = open(self.folder / "penstock" / "lock", "w")  # noqa: SIM115 - held as long as the run lives
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise PenstockError(
                f"The checkpoint '{self.folder}' is in use by another running query; stop that one or name another folder."
            ) from None
        return lock
