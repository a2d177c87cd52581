"""Rows over a connection: whatever their size they come out as they went in, and a peer that goes is told in one word."""

import socket
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.runtime.channel import _SMALL, Channel, PeerLostError


@pytest.fixture(scope="module")
def ends():
    left, right = socket.socketpair()
    channels = Channel(left), Channel(right)
    yield channels
    for channel in channels:
        channel.close()


def rows(count, first=0):
    numbers = np.arange(first, first + count)
    text = pa.array([f"row {n}" if n % 3 else None for n in numbers.tolist()], pa.string())
    return pa.record_batch({"a": numbers / 7, "text": text, "flag": numbers % 2 == 0})


@given(st.lists(st.sampled_from([0, 1, 10, 1_000, 20_000]), min_size=1, max_size=4), st.integers(0, 50))
def test_rows_of_any_size_come_out_as_they_went_in(ends, counts, cut):
    sender, receiver = ends
    batches = [rows(count, number).slice(cut) for number, count in enumerate(counts)]
    sent = []
    thread = threading.Thread(target=lambda: sent.append(sender.send_rows(7, 2, 3, batches)))
    thread.start()
    frame = receiver.receive(orders=False)
    thread.join()
    assert (frame.job, frame.stage, frame.number) == (7, 2, 3)
    assert pa.Table.from_batches(frame.body, batches[0].schema).equals(pa.Table.from_batches(batches))
    assert sent[0] >= sum(b.nbytes for b in batches if not cut)


def test_a_peer_that_goes_while_rows_are_on_their_way_is_told():
    left, right = socket.socketpair()
    sender, receiver = Channel(left), Channel(right)
    many = rows(200_000)
    assert many.nbytes > _SMALL
    thread = threading.Thread(target=receiver.close)
    thread.start()
    with pytest.raises(PeerLostError):
        sender.send_rows(1, 1, 1, [many] * 100)
    thread.join()
    with pytest.raises(PeerLostError):
        sender.receive()
    sender.close()


def test_a_frame_that_is_cut_off_is_a_lost_peer_and_not_rows():
    left, right = socket.socketpair()
    sender, receiver = Channel(left), Channel(right)
    thread = threading.Thread(target=sender.send_rows, args=(1, 1, 1, [rows(1_000)]))
    thread.start()
    right.recv(100)  # somebody took the header and the beginning
    thread.join()
    sender.close()
    with pytest.raises(PeerLostError):
        receiver.receive()
    receiver.close()
