"""Whole streams: delivered in order of delayed time, the same from wherever they are entered."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.traffic import map2, poisson
from penstock.traffic.attributes import Attributes
from penstock.traffic.disorder import BurstyDelay, HeavyDelay, UniformDelay
from penstock.traffic.keys import zipf
from penstock.traffic.stream import TupleStream, Walk

DELAYS = {"none": None, "uniform": UniformDelay(0.3), "heavy": HeavyDelay(0.2), "bursty": BurstyDelay(0.2)}


def _stream(delay, seconds=20.0, **more):
    return TupleStream(map2(3000.0, 50.0), DELAYS[delay], seconds=seconds, seed=4, **more)


@pytest.mark.parametrize("delay", DELAYS)
def test_every_event_is_delivered_once_in_order_of_delayed_time(delay):
    stream = _stream(delay)
    table = stream.table()
    arrival = table["arrival"].to_numpy()
    event_time = table["event_time"].to_numpy() if delay != "none" else arrival
    assert np.all(np.diff(arrival) >= 0.0)
    assert np.all(arrival >= event_time)
    process_only = TupleStream(stream.process, None, seconds=20.0, seed=4).table()["arrival"].to_numpy()
    assert np.array_equal(np.sort(event_time), process_only)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("delay", DELAYS)
def test_a_stream_entered_in_the_middle_is_the_same_stream(delay, data):
    stream = _stream(delay, keys=zipf(10), attributes=Attributes(3, ((0.0, 0.5),)))
    walk, whole = Walk(stream), []
    marks = []
    for _ in range(stream.slots):
        marks.append((walk.number, json.dumps(walk.mark())))
        whole.append(walk.next())
    number, mark = marks[data.draw(st.integers(0, len(marks) - 1))]
    entered = Walk(stream, number, json.loads(mark))
    for slot in whole[number:]:
        again = entered.next()
        assert again.number == slot.number
        assert np.array_equal(again.arrival, slot.arrival)
        assert np.array_equal(again.event_time, slot.event_time)
        assert stream.batch(again).equals(stream.batch(slot))
    assert entered.next() is None


@settings(max_examples=20, deadline=None)
@given(cut=st.tuples(st.integers(0, 8000), st.integers(0, 8000)))
def test_some_rows_of_a_slot_are_those_rows_of_the_whole_slot(cut):
    stream = _stream("uniform", keys=zipf(10), attributes=Attributes(3))
    slot = Walk(stream, 0).next()
    start, stop = sorted(min(c, len(slot)) for c in cut)
    assert stream.batch(slot, start, stop).equals(stream.batch(slot).slice(start, stop - start))


def test_the_delivered_stream_keeps_the_dispersion_of_the_process():
    process = map2(20_000.0, 500.0)
    arrival = np.concatenate(
        [b["arrival"].to_numpy() for b in TupleStream(process, seconds=60.0, seed=1).batches()]
    )
    counts = np.bincount((arrival / 0.25).astype(int), minlength=240)
    assert counts.var() / counts.mean() == pytest.approx(float(process.dispersion_at([0.25])[0]), rel=0.4)


def test_an_endless_stream_does_not_fit_into_a_table():
    with pytest.raises(PenstockError, match="without an end"):
        TupleStream(poisson(1.0)).table()


def test_a_stream_in_which_nothing_happens_says_so():
    with pytest.raises(PenstockError, match="Nothing arrives"):
        TupleStream(poisson(1e-9), seconds=1.0).table()
