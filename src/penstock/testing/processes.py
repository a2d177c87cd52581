"""Servers that tests start: free ports for them, and an end with the test's own."""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from penstock.core.errors import PenstockError


class LocalServer(ABC):
    """A server of this machine with a process and a folder of its own, started on entering and ended on leaving."""

    #: What it is called in errors.
    kind: str

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._password = uuid.uuid4().hex

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it answers."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers; an OSError means no."""

    def _launch(
        self, folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        with (folder / "server.log").open("ab") as out:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _await(self) -> None:
        assert self._process is not None
        assert self._folder is not None
        give_up = time.monotonic() + self._wait
        while time.monotonic() < give_up and self._process.poll() is None:
            with contextlib.suppress(OSError):
                if self._answers():
                    return
            time.sleep(0.05)
        log = (self._folder / "server.log").read_text(errors="replace").strip().splitlines()
        raise PenstockError(
            f"The {self.kind} did not come up within {self._wait:.0f} s ({(log or ['it wrote nothing'])[-1]})."
        )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """End it and remove what it kept."""
        self.kill()
        self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for some in sockets:
            some.bind(("127.0.0.1", 0))
        return [some.getsockname()[1] for some in sockets]


def die_with_parent() -> None:
    """Have the process that is about to be a program end with the one that starts it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
