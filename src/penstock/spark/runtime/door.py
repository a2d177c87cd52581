"""Where peers come in: a listening socket that strangers can neither hold nor exhaust.

Whoever connects has a few seconds in all to prove that it knows the secret, and only so many may be at it at the same
time: one more and the oldest is sent away, so that a crowd of silent connections cannot keep an honest peer out, which
proves itself within milliseconds.
"""

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable

from penstock.spark.runtime.channel import Channel, PeerLostError, StrangerError, listener

#: Connections that have not proved themselves, at most.
MOST_UNPROVEN = 64
#: Seconds to wait where the system has no room for another connection.
PAUSE = 0.05


class Door:
    """Takes connections in; ``welcome`` is called with each that proved itself, in a thread of its own."""

    def __init__(
        self,
        host: str,
        secret: bytes,
        welcome: Callable[[Channel], None],
        turned_away: Callable[[str], None] | None = None,
    ) -> None:
        self._secret, self._welcome, self._turned_away = secret, welcome, turned_away
        self._socket = listener(host)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._unproven: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False

    def open(self) -> "Door":
        """Begin to take connections."""
        threading.Thread(target=self._accept, name="penstock-door", daemon=True).start()
        return self

    def close(self) -> None:
        """Take no more; those that did not prove themselves are sent away."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for connection in self._unproven:
                _hang_up(connection)

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return  # closed
                time.sleep(PAUSE)  # out of files, or the other end gave up: the next one may fare better
                continue
            with self._lock:
                self._unproven.append(connection)
                if len(self._unproven) > MOST_UNPROVEN:
                    _hang_up(self._unproven.pop(0))
            threading.Thread(
                target=self._let_in, args=(connection,), name="penstock-peer", daemon=True
            ).start()

    def _let_in(self, connection: socket.socket) -> None:
        try:
            channel = Channel.accept(connection, self._secret)
        except PeerLostError:
            return
        except StrangerError as error:
            # Once is enough: a stranger must not be able to fill the journal.
            tell, self._turned_away = self._turned_away, None
            if tell is not None:
                tell(str(error))
            return
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._unproven.remove(connection)
        self._welcome(channel)


def _hang_up(connection: socket.socket) -> None:
    """End a connection; the thread that reads from it closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
