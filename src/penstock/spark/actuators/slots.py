"""Slots: how many partitions each stage of one of Penstock's own queries runs in, changed between two batches."""

import threading
from collections.abc import Mapping
from types import MappingProxyType

from penstock.core.errors import PenstockError, unknown
from penstock.spark.actuators.probe_result import ProbeResult

NAME = "slots"


class Slots:
    """The number of partitions per stage, written by the control loop and read as a batch begins.

    >>> slots = Slots({"pane": 1, "window": 1}, most=4)
    >>> slots.set({"pane": 3})
    >>> dict(slots.read())
    {'pane': 3, 'window': 1}
    """

    def __init__(self, start: Mapping[str, int], most: int) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._counts = dict(start)
        self.set(start)

    def set(self, counts: Mapping[str, int]) -> None:
        """Change some or all stages at once: a batch sees all of the change or nothing of it."""
        for stage, count in counts.items():
            if stage not in self._counts:
                raise unknown("stage", stage, self._counts)
            if not 1 <= count <= self._most:
                raise PenstockError(
                    f"Stage '{stage}' cannot have {count} slots: choose between 1 and {self._most}."
                )
        with self._lock:
            self._counts = {**self._counts, **counts}

    def read(self) -> Mapping[str, int]:
        """The counts for the batch that begins now."""
        with self._lock:
            return MappingProxyType(self._counts)


def probe() -> ProbeResult:
    """Slots need nothing of the machine."""
    return ProbeResult(
        NAME, True, "partitions per stage can change between any two batches, in local mode too."
    )
