"""Run a user's unmodified program with an autoscaler attached to whatever queries it starts."""

import os
import runpy
import shlex
import sys
import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.core.policy import AnyPolicy
from penstock.spark.attach.autoscaler import Autoscaler
from penstock.spark.attach.narration import Narrator, Say
from penstock.spark.attach.settings import Settings

#: Options that let executors leave without losing work; the program's own settings win over them.
GRACEFUL = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}


def run_script(
    script: Path,
    arguments: Sequence[str],
    settings: Settings,
    policy: AnyPolicy | str | None,
    *,
    master: str | None = None,
    say: Say | None = None,
    **options: Any,
) -> Autoscaler | None:
    """Run the program to its end; returns the autoscaler, or None where it never started a session.

    ``master`` is where the program runs unless it names a master itself; ``say`` is told what happens, line by line.
    What the program raises, also ``SystemExit``, passes through.
    """
    _checked(script)
    _submit_with(GRACEFUL, master)
    watch = _SessionWatch(settings, policy, options, master, say)
    watch.start()
    kept, sys.argv = sys.argv, [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = kept
        watch.finish()
    return watch.autoscaler


def _checked(script: Path) -> None:
    """Refuse a program that is not there or cannot be read; what it raises itself passes through."""
    try:
        if not script.is_file():
            raise PenstockError(f"There is no program '{script}' to run; check the path.")
        script.open("rb").close()
    except OSError as error:
        raise PenstockError(
            f"The program '{script}' cannot be read ({error.strerror}); check the path and its permissions."
        ) from None


class _SessionWatch(threading.Thread):
    """Waits for the program to make a Spark session, then begins to scale."""

    def __init__(
        self,
        settings: Settings,
        policy: AnyPolicy | str | None,
        options: dict[str, Any],
        master: str | None,
        say: Say | None,
    ) -> None:
        super().__init__(name="penstock-session-watch", daemon=True)
        self._settings, self._policy, self._options = settings, policy, options
        self._master, self._say = master, say
        self._over = threading.Event()
        self.autoscaler: Autoscaler | None = None

    def run(self) -> None:
        while not self._over.wait(0.1):
            session = getattr(SparkSession, "_instantiatedSession", None)
            if session is not None and getattr(session.sparkContext, "_jsc", None) is not None:
                # The program may start its next query hours after the last one ended.
                options = {"linger": inf, **self._options}
                self.autoscaler = Autoscaler(
                    session, lambda id_, name: True, self._settings, self._policy, **options
                )
                if self._say is not None:
                    self._narrate(self.autoscaler, session, self._say)
                self.autoscaler.start()
                return

    def _narrate(self, autoscaler: Autoscaler, session: SparkSession, say: Say) -> None:
        real = str(session.sparkContext.master)
        Narrator(say).begin(autoscaler, real, session.sparkContext.applicationId)
        if self._master is not None and real != self._master:
            say(
                f"the program names its own master, {real}; take .master(...) out of it to use {self._master}"
            )

    def finish(self) -> None:
        """The program has ended."""
        self._over.set()
        self.join(timeout=30)
        if self.autoscaler is not None:
            self.autoscaler.stop()


def _submit_with(options: dict[str, str], master: str | None) -> None:
    """Hand options to the JVM that the program will start; what it sets itself comes later and wins."""
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    ours = " ".join(f"--conf {key}={value}" for key, value in options.items() if key not in given)
    where = "" if master is None else f"--master {shlex.quote(master)} "
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{where}{ours} {given}"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
