"""Connections between the driver and the resident workers, and among these: authenticated, framed, quick.

Both ends prove that they know the run's secret before a byte of what they say is looked at. The listener sends a random
challenge; the caller answers with its HMAC and a challenge of its own; the listener answers that one only then, so a
stranger learns nothing. Both challenges are part of both answers: neither can be used again. The secret reaches workers inside their Spark task, so it travels as
safely as Spark's own tasks do. After that, three kinds of frames go over the kept connection:

    control   a pickled message between driver and worker
    rows      Arrow batches for one task of one stage of one job
    end       nothing more comes from this sender for this stage of this job

Rows are Arrow streams, never pickles, and only a peer that knows the secret can send either. Between workers nothing is
ever unpickled. What follows the proof is neither encrypted nor signed: like Spark without ``spark.network.crypto``, it is
as safe as the network between the hosts.
"""

import contextlib
import hmac
import io
import os
import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle

from penstock.core.errors import PenstockError
from penstock.spark.runtime.arrow_data import from_buffer, stream_size, write_stream

CONTROL, ROWS, END = 1, 2, 3

#: Kind, job, stage, task or sender, length of what follows.
_HEADER = struct.Struct("<BQIIQ")
_CHALLENGE = _PROOF = 32
#: Seconds without a sign of life after which the other end's host is taken for gone; shorter cuts are waited out.
SILENCE = 60
#: Seconds within which a new peer must have proved itself, all in all.
HANDSHAKE = 10.0
#: Frames below so many bytes go out in one piece.
_SMALL = 1 << 16
#: A frame cannot be longer: its header would be damaged.
MOST_BYTES = 1 << 34


class PeerLostError(ConnectionError):
    """The other end is gone."""


class StrangerError(PenstockError):
    """The other end does not know the secret."""


@dataclass(frozen=True)
class Frame:
    """One thing that came in: a control message, rows for a task, or a sender's end of a stage."""

    kind: int
    job: int
    stage: int
    #: The task that rows are for; the worker that sends an end.
    number: int
    body: Any = None


class Channel:
    """One authenticated connection: several threads may send, whose frames go one after another, and one receive."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()  # a frame goes out as a whole
        self._reader = cast(io.BufferedReader, connection.makefile("rb", buffering=1 << 18))
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            # Small frames wait for the acknowledgement of the one before otherwise: 40 ms instead of 0.04.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _notice_silence(connection)

    @classmethod
    def connect(cls, address: tuple[str, int], secret: bytes, timeout: float = HANDSHAKE) -> "Channel":
        """Reach a listener that knows the secret."""
        connection = socket.create_connection(address, timeout)
        return _proven(connection, secret, _as_caller)

    @classmethod
    def accept(cls, connection: socket.socket, secret: bytes) -> "Channel":
        """Take a connection that a listening socket accepted, if its other end knows the secret."""
        return _proven(connection, secret, _as_listener)

    @property
    def local_host(self) -> str:
        """This end's address: the one under which the other's network reaches this host."""
        return str(self._socket.getsockname()[0])

    @property
    def hung_up(self) -> bool:
        """Whether a connection whose other end has nothing to say is over: that end hung up, or is out of reach."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(self, message: object) -> None:
        """Send a control message."""
        self._frame(CONTROL, 0, 0, 0, pickled(message))

    def send_pickled(self, message: bytes) -> None:
        """Send a control message that was pickled once for several receivers."""
        self._frame(CONTROL, 0, 0, 0, message)

    def send_rows(self, job: int, stage: int, task: int, batches: Sequence[pa.RecordBatch]) -> int:
        """Send Arrow batches of one schema to a task; the number of bytes."""
        size = stream_size(batches)
        if size < _SMALL:
            sink = pa.BufferOutputStream()
            write_stream(sink, batches)
            self._frame(ROWS, job, stage, task, memoryview(sink.getvalue()))
        else:  # straight from the columns: a copy in fresh memory costs more than all else
            with self._sending:
                self._send(_HEADER.pack(ROWS, job, stage, task, size))
                write_stream(pa.PythonFile(_Sending(self._send), mode="w"), batches)
        return size

    def send_end(self, job: int, stage: int, sender: int) -> None:
        """Say that nothing more comes for a stage."""
        self._frame(END, job, stage, sender, b"")

    def receive(self, orders: bool = True) -> Frame:
        """The next frame; raises :class:`PeerLostError` when the other end is gone, or what it says makes no sense.

        Without ``orders`` control messages are such nonsense, and are not looked at.
        """
        kind, job, stage, number, length = _HEADER.unpack(self._exactly(_HEADER.size))
        if kind not in (CONTROL, ROWS, END) or length > MOST_BYTES or (kind == CONTROL and not orders):
            self.close()
            raise PeerLostError(f"the other end sent a frame of kind {kind} and {length} bytes")
        if kind == CONTROL:
            return Frame(kind, job, stage, number, pickle.loads(self._exactly(length)))
        if kind == ROWS:
            body = pa.allocate_buffer(length)  # of Arrow's memory, which is used again
            self._fill(memoryview(body))
            return Frame(kind, job, stage, number, from_buffer(body).to_batches())
        self._exactly(length)
        return Frame(kind, job, stage, number)

    def close(self) -> None:
        """Hang up; whoever waits on either side is told."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._reader.close()
            self._socket.close()

    def _frame(self, kind: int, job: int, stage: int, number: int, body: Any) -> None:
        header = _HEADER.pack(kind, job, stage, number, len(body))
        with self._sending:
            if len(body) < _SMALL:
                self._send(header + bytes(body))
            else:
                self._send(header)
                self._send(body)

    def _send(self, data: Any) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise PeerLostError(f"the other end is gone ({error})") from None

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> None:
        try:
            count = self._reader.readinto(view)
        except (OSError, ValueError) as error:  # ValueError: closed by another thread of ours
            raise PeerLostError(f"the other end is gone ({error})") from None
        if count < len(view):
            raise PeerLostError("the other end hung up")


class _Sending(io.RawIOBase):
    """A connection as Arrow's writers want it."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._send(data)
        return len(data)


def _notice_silence(connection: socket.socket) -> None:
    """Take a host that says nothing for SILENCE seconds for gone: one that loses power sends no farewell."""
    options = {"TCP_KEEPIDLE": SILENCE // 4, "TCP_KEEPINTVL": SILENCE // 4, "TCP_KEEPCNT": 3}
    options["TCP_USER_TIMEOUT"] = SILENCE * 1000  # milliseconds: what was sent and is not acknowledged
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def pickled(message: object) -> bytes:
    """A message as bytes; functions of the caller's own program go along by value."""
    data: bytes = cloudpickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
    return data


def listener(host: str) -> socket.socket:
    """A listening socket on a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, 0), family=family, backlog=64)
    made.settimeout(None)
    return made


def _proven(connection: socket.socket, secret: bytes, prove: Callable[["_Limited", bytes], None]) -> Channel:
    try:
        prove(_Limited(connection, HANDSHAKE), secret)
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        raise PeerLostError(f"the other end did not prove itself ({error})") from None
    except StrangerError:
        connection.close()
        raise
    return Channel(connection)


def _as_listener(peer: "_Limited", secret: bytes) -> None:
    """The caller proves itself first."""
    own = os.urandom(_CHALLENGE)
    peer.send(own)
    other = peer.read(_CHALLENGE)
    _check(peer.read(_PROOF), _proof(secret, b"caller", own, other))
    peer.send(_proof(secret, b"listener", own, other))


def _as_caller(peer: "_Limited", secret: bytes) -> None:
    own, other = os.urandom(_CHALLENGE), peer.read(_CHALLENGE)
    peer.send(own + _proof(secret, b"caller", other, own))
    _check(peer.read(_PROOF), _proof(secret, b"listener", other, own))


def _proof(secret: bytes, side: bytes, of_listener: bytes, of_caller: bytes) -> bytes:
    """The words for the two sides differ, so that no answer can be sent back."""
    return hmac.digest(secret, side + of_listener + of_caller, "sha256")


def _check(answer: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(answer, expected):
        raise StrangerError("A peer without the run's secret was turned away.")


class _Limited:
    """A connection that must have said all it has to say within some seconds, however slowly it goes on."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._until = connection, time.monotonic() + seconds

    def send(self, data: bytes) -> None:
        self._wait()
        self._connection.sendall(data)

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            self._wait()
            piece = self._connection.recv(count - len(data))
            if not piece:
                raise OSError("hung up")
            data += piece
        return data

    def _wait(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("too slow")
        self._connection.settimeout(left)
