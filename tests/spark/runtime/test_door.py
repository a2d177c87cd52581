"""Strangers at the door of the resident workers: slow ones, silent crowds, replays, oversized frames, orders of peers."""

import errno
import hmac
import os
import pickle
import socket
import struct
import threading

import pytest

from penstock.spark.runtime import channel as channels
from penstock.spark.runtime import door as doors
from penstock.spark.runtime.channel import Channel, PeerLostError, StrangerError
from penstock.spark.runtime.door import Door
from waiting import until

SECRET = b"s" * 32
HEADER = struct.Struct("<BQIIQ")


@pytest.fixture
def welcomed():
    return []


@pytest.fixture
def door(welcomed):
    told = []
    made = Door("127.0.0.1", SECRET, welcomed.append, told.append).open()
    made.told = told
    yield made
    made.close()


def stranger(door):
    return socket.create_connection(door.address)


def test_who_knows_the_secret_comes_in_and_a_stranger_is_told_of_once(door, welcomed):
    for _ in range(3):
        with pytest.raises((StrangerError, PeerLostError)):
            Channel.connect(door.address, b"wrong")
    until(lambda: door.told, "the stranger is reported")
    friend = Channel.connect(door.address, SECRET)
    until(lambda: welcomed, "the friend is in")
    friend.send({"hello": 1})
    assert welcomed[0].receive().body == {"hello": 1}
    assert len(door.told) == 1


def test_a_stranger_learns_nothing_before_it_has_proved_itself(door):
    with stranger(door) as peer:
        assert len(peer.recv(4096)) == 32  # the challenge
        peer.sendall(os.urandom(64))
        assert peer.recv(4096) == b""  # and not an answer that could be used elsewhere


def test_what_was_said_once_cannot_be_said_again(door, welcomed):
    """A recorded conversation, played back to the listener and to a caller."""
    with stranger(door) as peer:
        theirs, ours = peer.recv(32), os.urandom(32)
        proof = hmac.digest(SECRET, b"caller" + theirs + ours, "sha256")
        peer.sendall(ours + proof)
        answer = peer.recv(32)
        assert answer == hmac.digest(SECRET, b"listener" + theirs + ours, "sha256")
    until(lambda: len(welcomed) == 1, "the first one is in")
    with stranger(door) as replayed:
        replayed.recv(32)
        replayed.sendall(ours + proof)
        assert replayed.recv(32) == b""
    server = socket.create_server(("127.0.0.1", 0))

    def play_back():
        connection, _ = server.accept()
        with connection:
            connection.sendall(theirs)
            connection.recv(64)
            connection.sendall(answer)

    thread = threading.Thread(target=play_back)
    thread.start()
    with pytest.raises(StrangerError):
        Channel.connect(server.getsockname(), SECRET)
    thread.join()
    server.close()
    assert len(welcomed) == 1


class Ticking:
    """Stands for the time module: a second a look."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now


class Dripping:
    """Stands for a connection that has a byte whenever it is asked, and never more."""

    def __init__(self):
        self.read = 0

    def settimeout(self, seconds):
        pass

    def sendall(self, data):
        pass

    def recv(self, count):
        self.read += 1
        return b"x"

    def close(self):
        pass


def test_a_byte_now_and_then_does_not_hold_the_door(monkeypatch):
    monkeypatch.setattr(channels, "time", Ticking())
    slow = Dripping()
    with pytest.raises(PeerLostError, match="too slow"):
        Channel.accept(slow, SECRET)
    assert 0 < slow.read < channels.HANDSHAKE


def test_a_silent_crowd_keeps_nobody_out(door, welcomed, monkeypatch):
    monkeypatch.setattr(doors, "MOST_UNPROVEN", 5)
    crowd = [stranger(door) for _ in range(40)]
    friend = Channel.connect(door.address, SECRET)
    until(lambda: welcomed, "the friend is in")
    until(lambda: len(door._unproven) <= 5, "most of the crowd is gone")
    friend.close()
    for peer in crowd:
        peer.close()


def test_a_system_without_room_costs_a_pause_not_the_door(door, welcomed, monkeypatch):
    accept, left = door._socket.accept, [3]

    class Short:
        def accept(self):
            if left[0]:
                left[0] -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return accept()

    real = door._socket
    monkeypatch.setattr(door, "_socket", Short())
    stranger(door).close()  # wakes the accept that waits already
    Channel.connect(door.address, SECRET).close()
    until(lambda: welcomed and not left[0], "the friend is in")
    monkeypatch.setattr(door, "_socket", real)


def connected():
    left, right = socket.socketpair()
    return left, Channel(right)


@pytest.mark.parametrize(
    "header",
    [HEADER.pack(2, 0, 0, 0, 2**63), HEADER.pack(9, 0, 0, 0, 4), HEADER.pack(0, 0, 0, 0, 0)],
    ids=["oversized", "unknown", "zero"],
)
def test_a_frame_that_makes_no_sense_ends_the_connection(header):
    raw, channel = connected()
    raw.sendall(header + b"abcd")
    with pytest.raises(PeerLostError, match="sent a frame"):
        channel.receive()
    raw.close()


class Trap:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_between_workers_nothing_is_unpickled():
    raw, channel = connected()
    body = pickle.dumps(Trap())
    raw.sendall(HEADER.pack(channels.CONTROL, 0, 0, 0, len(body)) + body)
    with pytest.raises(PeerLostError):
        channel.receive(orders=False)
    raw.close()
