"""Kill this process at an exact point of a batch, as a power cut would: for tests of recovery."""

import os
import signal

from penstock.spark.runtime import milestones


def kill_at(point: str) -> None:
    """Kill this process when ``NAME:BATCH`` is reached, such as ``during-commit:2``.

    The names are those of the calls of ``milestones.reached``.
    """

    def kill(name: str, batch: int) -> None:
        if point == f"{name}:{batch}":
            os.kill(os.getpid(), signal.SIGKILL)

    milestones.hooks.append(kill)
