"""Results that go elsewhere than into a folder: a topic, a table.

The rows of a batch wait as files in the checkpoint, in an *outbox*. They become visible there with the batch's commit,
and only then are they sent, with a number that the receiver keeps in the same transaction as the rows. After a crash
the receiver is asked for the last number it has: what it has already is not sent again, so every batch is there once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.locations import Location, location, read_parquet, remove
from penstock.spark.runtime.manifest import Manifest
from penstock.spark.runtime.milestones import reached

#: A batch is committed again at most twice: with what its flow had put off, and with what had been gathered.
ROUNDS = 16


@dataclass(frozen=True)
class Waiting:
    """Files of one batch in an outbox."""

    base: Location
    files: Sequence[Location]

    def by_operator(self) -> Iterator[tuple[str, pa.Table]]:
        """Their rows, each table with the operator that put its rows aside: a folder inside is named after it."""
        for file in self.files:
            yield "" if file.parent == self.base else file.parent.name, read_parquet(file)


class Delivery(Protocol):
    """A way to a receiver, for one run."""

    def last(self) -> int:
        """The last number that the receiver has, -1 where there is none; one sentence, soon, where it cannot be asked."""

    def deliver(self, rows: Waiting, number: int) -> None:
        """Send rows under a number, unless the receiver has that number already."""

    def close(self) -> None:
        """The run has ended."""


class Destination(ABC):
    """Where rows go: given as ``output=``, ``late=`` or ``dead_letters=``, or to a flow's sink."""

    @abstractmethod
    def opened(self, name: str) -> Delivery:
        """A way there; ``name`` is the same for all runs with one checkpoint, and no other run has it."""


class Outbox:
    """The files that wait for one destination."""

    def __init__(self, folder: OutputFolder, destination: Destination) -> None:
        self.folder, self._destination = folder, destination
        self._delivery: Delivery | None = None

    @classmethod
    def made(cls, destination: Destination, role: str, checkpoint: str | Location) -> "Outbox":
        """An outbox in a checkpoint folder."""
        place = location(checkpoint) / "penstock" / "outbox" / role.replace(" ", "-")
        return cls(OutputFolder.made(place, role), destination)

    def open(self, owner: str, known: int) -> None:
        """Find the way to the receiver, which must have no batch of the run ``owner`` after the last ``known`` one."""
        delivery = self._destination.opened(f"{owner}-{self.folder.role.replace(' ', '-')}")
        last = delivery.last() // ROUNDS
        if last > known:
            delivery.close()
            raise PenstockError(
                f"{self._destination} has batch {last} of this run already, but the checkpoint that holds "
                f"'{self.folder.path}' ends with batch {known}; restore the newest versions of the checkpoint, or start with "
                "a new one."
            )
        self._delivery = delivery

    def send(self, manifest: Manifest) -> None:
        """Deliver what a committed version put here; safe to repeat."""
        base = self.folder.place
        files = [base / o.final for o in manifest.outputs if o.folder == self.folder.role]
        waiting = [file for file in files if file.exists()]
        if not waiting:
            return  # what is no longer here was delivered
        assert self._delivery is not None, "an outbox is opened before anything is sent"
        reached("before-delivery", manifest.batch)
        self._delivery.deliver(Waiting(base, waiting), ROUNDS * manifest.batch + manifest.round)
        reached("after-delivery", manifest.batch)
        remove(waiting)

    def close(self) -> None:
        """The run has ended."""
        if self._delivery is not None:
            self._delivery.close()
            self._delivery = None
