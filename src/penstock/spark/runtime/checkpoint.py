"""State versions by batch, with one atomic commit.

A checkpoint folder holds Spark's own offsets beside ours::

    CHECKPOINT/spark/                      Spark's offset and commit logs
    CHECKPOINT/penstock/identity.json      which query this state belongs to
    CHECKPOINT/penstock/id                 the name by which output folders know their owner
    CHECKPOINT/penstock/commits/0..12.json one manifest a batch
    CHECKPOINT/penstock/commits/0..13.dropped what is left of a version that was damaged, until its batch is through again
    CHECKPOINT/penstock/state/             state files, named by batch and attempt, never changed in place

A manifest names every file that makes up its version, the small state of the driver, and the output files that
become visible with it. All of them are on disk before it. Writing it under a temporary name and renaming it *is* the
commit: before it nothing of a batch counts, after it everything does. Output files are moved into place after the
commit; a crash in between is mended at the next start, since the manifest says what is still to be moved.

In an object store the commit is one conditional put: of two runs that want to commit the same batch one is told that the
other was first, and ends. No lock is needed for that, and there is none; and a run removes no file of a batch that is not
committed yet, since it may be another's. A run that starts marks the newest manifest as taken over, so that the one
before cannot commit that batch again. Spark's logs are not kept there: the manifest has the offsets.

A newest version that is damaged (a checksum does not fit, a file is gone) is dropped for the one before it, and Spark's
logs go back with it, so that the batch runs again, with the rows it had (see :mod:`penstock.spark.runtime.dropped`).
"""

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from penstock.core.errors import PenstockError
from penstock.core.stores import StorePath, Tag
from penstock.spark.runtime import spark_log
from penstock.spark.runtime.damage import DamagedError, damages
from penstock.spark.runtime.dropped import DroppedVersions
from penstock.spark.runtime.durable import read_json, replace_text, sync_all, write_text
from penstock.spark.runtime.folders import OutputFolder, is_of_batch
from penstock.spark.runtime.gathering import Gathered, Gathering
from penstock.spark.runtime.identity import claim, own_id
from penstock.spark.runtime.locations import Location, location, moved, prepare, remove
from penstock.spark.runtime.manifest import Manifest, Publication
from penstock.spark.runtime.milestones import reached
from penstock.spark.runtime.outbox import Outbox
from penstock.spark.runtime.paths import STAGING

KEPT_VERSIONS = 2
SWEEP_EVERY = 100
#: Checkpoint folder -> lets go of it if the run that holds it in this process has ended unnoticed.
_holders: dict[Location, Callable[[], None]] = {}


@dataclass(frozen=True)
class _Kept:
    """What the kept versions name: state files, and output files that wait, by the role of their folder."""

    files: frozenset[str]
    waiting: frozenset[tuple[str, str]]


class Checkpoint:
    """The folder of one query's committed versions; one run at a time may hold it."""

    def __init__(
        self, folder: str | Location, identity: Mapping[str, Any], gathering: Gathering | None = None
    ) -> None:
        self.folder = location(folder, "checkpoint")
        self.spark_folder = self.folder / "spark"
        self.state_folder = self.folder / "penstock" / "state"
        self._commits = self.folder / "penstock" / "commits"
        self._dropped = DroppedVersions(self._commits)
        #: A version that was dropped and whose batch is not through again; says which rows the batch had.
        self.dropped: Manifest | None = None
        self._folders: Mapping[str, OutputFolder] = {}
        self._synced: frozenset[str] = frozenset()
        self._gathering, self._gathered = gathering or Gathering(), Gathered(())
        #: What goes on from here to topics and tables once it is committed.
        self.outboxes: Sequence[Outbox] = ()
        self._round = (-1, 0)  # the last batch that was committed, and how often before
        #: What was mended at the start, in one sentence; empty where nothing was.
        self.mended = ""
        self._tag: Tag | None = None  # of the newest manifest, in an object store
        self._known: dict[
            int, Manifest
        ] = {}  # kept versions that this run wrote; to read one is a request there
        prepare(self.state_folder, "checkpoint")
        prepare(self._commits, "checkpoint")
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
    def in_store(self) -> bool:
        """Whether it is in an object store, where Spark cannot keep its logs."""
        return isinstance(self.folder, StorePath)

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
        known = self._known.get(batch)
        return Manifest.read(self._manifest(batch)) if known is None else known

    def commit(self, manifest: Manifest, flush: bool = False) -> None:
        """Make a version the latest one and its output visible, then drop what no kept version needs.

        Output may wait for that of later batches (see :mod:`penstock.spark.runtime.gathering`); ``flush`` lets it not.
        """
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
        self._write(manifest)
        if self.in_store:
            self._known[manifest.batch] = manifest
        reached("after-commit", manifest.batch)
        if manifest.round:  # it was committed before, and has more in it now
            self._published(manifest.batch).unlink(missing_ok=True)
        self._gathered = Gathered((), manifest.waiting, manifest.since)
        self._round = (manifest.batch, manifest.round)
        self.publish(manifest)
        reached("after-publish", manifest.batch)
        self._prune(manifest)

    def _write(self, manifest: Manifest) -> None:
        """Put the manifest in its place, which is the commit."""
        target = self._manifest(manifest.batch)
        if isinstance(target, StorePath):
            reached("during-commit", manifest.batch)
            data = manifest.to_text().encode()
            known = self._tag if manifest.round else None
            tag = target.create(data) if known is None else target.swap(data, known)
            if tag is None and known is not None:
                raise PenstockError(
                    f"Another run has gone on from batch {manifest.batch} of the checkpoint '{self.folder}' and gives out what "
                    "waits there; this one ends. Start one run at a time with a checkpoint."
                )
            if tag is None:
                raise PenstockError(
                    f"Another run has committed batch {manifest.batch} to the checkpoint '{self.folder}'; this one ends, "
                    "and nothing of its batch counts. Start one run at a time with a checkpoint."
                )
            self._tag = tag
            return
        temporary = target.with_suffix(".tmp")
        write_text(temporary, manifest.to_text())
        reached("during-commit", manifest.batch)
        os.replace(temporary, target)
        sync_all([self._commits])

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
        staged = [self._path(o.staged, o, manifest) for o in outputs]
        written: list[Location] = [*new, *staged]
        sync_all([*written, *{path.parent for path in written}])
        self._synced = frozenset(manifest.files)

    @property
    def batches(self) -> list[int]:
        """The batches whose versions are kept."""
        return self._batches()

    def rewrite(self, manifest: Manifest) -> None:
        """Put another manifest in the place of a kept version's, for a run that is stopped."""
        replace_text(self._manifest(manifest.batch), manifest.to_text())

    def publish(self, manifest: Manifest) -> None:
        """Move the committed output files into place; safe to repeat."""
        pairs = [
            (self._path(o.staged, o, manifest), self._path(o.final, o, manifest)) for o in manifest.outputs
        ]
        for staged, final in (pairs[at] for at in moved(pairs)):
            # Once all were in place, whoever owns the output may take files away.
            if not final.exists() and not self._published(manifest.batch).exists():
                raise PenstockError(
                    f"Batch {manifest.batch} of the checkpoint '{self.folder}' is committed, but its output file is "
                    f"neither at '{final}' nor at '{staged}'; give start() the folder where it is."
                )
        if pairs:
            self._published(manifest.batch).touch()
        for outbox in self.outboxes:
            outbox.send(manifest)

    def recover(self, folders: Mapping[str, OutputFolder] | None = None) -> Manifest | None:
        """At a start: finish what the last commit left to move, remove what was never committed.

        ``folders`` are the output folders by their role.
        """
        self._folders = folders or {}
        for folder in self._folders.values():
            folder.claim(self.id, self.folder, self.is_new)
        spark_log.remove_leftovers(self.spark_folder)
        latest = self._taken_over()
        committed = -1 if latest is None else latest.batch
        self.dropped = self._dropped.newest(committed)
        known = committed if self.dropped is None else max(committed, self.dropped.batch)
        for outbox in self.outboxes:
            outbox.open(self.id, known)
        if latest is not None:
            self.publish(latest)
            self._synced = frozenset(latest.files)
            self._gathered = Gathered((), latest.waiting, latest.since)
            self._round = (latest.batch, latest.round)
            reached("during-recovery", latest.batch)
        remove(self._commits.glob("*.tmp"))
        # A run that is not known to have ended may be about to commit the next batch to a store.
        self._sweep(committed if self.in_store else None)
        return latest

    def through_again(self) -> None:
        """The batch of the dropped version is committed, with everything that the dropped one had sent on."""
        self._dropped.forget()
        self.dropped = None

    def close(self) -> None:
        """Let another run have the folder."""
        for outbox in self.outboxes:
            outbox.close()
        if self._lock is not None:
            self._lock.close()
        _holders.pop(self.folder, None)

    def held_by(self, let_go: Callable[[], None]) -> None:
        """Name what closes this checkpoint if its run has ended; asked when another run wants the folder."""
        _holders[self.folder] = let_go

    def _taken_over(self) -> Manifest | None:
        """The newest version that is whole, which in a store no run that was here before can put again.

        Put again, with what had been gathered, it would give out rows that this run has as waiting.
        """
        while True:
            found = self._sound()
            place = None if found is None else self._manifest(found.batch)
            if found is None or not isinstance(place, StorePath):
                return found
            taken = replace(found, taken=uuid.uuid4().hex)
            tag = place.tag  # before the reading: where the swap goes well, what was read is what was there
            with contextlib.suppress(DamagedError):
                same = Manifest.read(place) == found
                self._tag = place.swap(taken.to_text().encode(), tag) if same and tag is not None else None
                if self._tag is not None:
                    self._known[taken.batch] = taken
                    return taken

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
        paths: list[Location] = [self.state_folder / name for name in own]
        paths += [self._path(o.staged, o, manifest) for o in manifest.waiting]
        problem = damages(paths)
        return (None, problem) if problem else (manifest, "")

    def _go_back(self, batch: int, reason: str) -> None:
        """Drop all versions after ``batch``, with their output and Spark's entries for them."""
        if not spark_log.can_go_back(self.spark_folder, batch):
            raise PenstockError(
                f"The checkpoint '{self.folder}' cannot be used: {reason}, and Spark's log no longer has the offsets of "
                f"batch {batch + 1}; restore it, or start with a new checkpoint folder."
            )
        self._keep_dropped(batch + 1, reason)
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

    def _keep_dropped(self, batch: int, reason: str) -> None:
        """Keep which rows a batch had that is run again: what was sent on of it is not sent again."""
        known = self._dropped.known(batch, self._manifest(batch))
        if known is None and self.outboxes and not spark_log.has_planned(self.spark_folder, batch):
            raise PenstockError(
                f"The checkpoint '{self.folder}' cannot be used: {reason}, and only it says which rows batch {batch} had, "
                "whose results may have gone to a topic or a table; restore it, or start with a new checkpoint folder."
            )
        self._dropped.keep(known or Manifest(batch, {}))

    def _path(self, name: str, output: Publication, manifest: Manifest) -> Location:
        """Where a file of an output folder is now."""
        if not output.folder:
            return Path(name)  # absolute, as version 0.1 wrote it
        folder = self._folders.get(output.folder)
        base = manifest.folders[output.folder] if folder is None else folder.path
        return location(base) / name

    def _manifest(self, batch: int) -> Location:
        return self._commits / f"{batch:012d}.json"

    def _published(self, batch: int) -> Location:
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
            remove(self.state_folder / name for name in set(old.files) - kept.files)
            remove(
                self._path(o.staged, o, old) for o in old.waiting if (o.folder, o.staged) not in kept.waiting
            )
            reached("during-clean-up", newest.batch)
            remove([self._manifest(batch), self._published(batch)])
            self._known.pop(batch, None)
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
        named = {path: path.name for path in self.state_folder.iterdir()}
        for path in self.state_folder.parent.glob(f"*/{STAGING}/*"):  # rows for sinks that are functions
            named[path] = f"../{path.parent.parent.name}/{STAGING}/{path.name}"
        remove(p for p, name in named.items() if name not in kept.files and is_of_batch(p.name, until))
        for role, folder in self._folders.items():
            folder.sweep({staged for of, staged in kept.waiting if of == role}, until)

    def _hold(self) -> IO[str] | None:
        if self.folder in _holders:
            _holders[self.folder]()
        if isinstance(self.folder, StorePath):
            return None  # whoever commits first has it
        lock = open(self.folder / "penstock" / "lock", "w")  # noqa: SIM115 - held as long as the run lives
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise PenstockError(
                f"The checkpoint '{self.folder}' is in use by another running query; stop that one or name another folder."
            ) from None
        return lock
