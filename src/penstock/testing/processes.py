"""Servers that tests start: free ports for them, and an end with the test's own."""

import contextlib
import ctypes
import signal
import socket
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class LocalServer(ABC):
    """A server of this machine, started on entering and ended on leaving."""

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it answers."""

    @abstractmethod
    def stop(self) -> None:
        """End it and remove what it kept."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
