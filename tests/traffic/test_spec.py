"""Streams in words: options to streams, and one sentence for what makes no sense."""

import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.traffic.composition import Shaped, Superposition
from penstock.traffic.spec import MODELS, StreamSpec


@pytest.mark.parametrize("model", MODELS)
def test_every_model_can_be_asked_for(model):
    process = StreamSpec(model=model, rate=500.0).process()
    assert process.rate == pytest.approx(500.0)


def test_options_as_text_are_read():
    spec = StreamSpec.parse(
        {"model": "map2", "rate": "50", "delayMean": "0.1", "key_drift": "3", "dims": "2"}
    )
    assert (spec.model, spec.rate, spec.delay_mean, spec.key_drift, spec.dims) == ("map2", 50.0, 0.1, 3.0, 2)


def test_superpositions_and_shapes_are_read():
    process = StreamSpec(
        rate=100.0,
        superpose="map2:rate=50,dispersion=20;poisson:rate=10",
        shape="flash:at=10,peak=3;daily:period=20,amplitude=0.2",
        seconds=60.0,
    ).process()
    assert isinstance(process, Shaped)
    assert isinstance(process.process, Superposition)
    assert process.process.rate == pytest.approx(160.0)
    assert float(process.shape.factor(11.0)) == pytest.approx(
        3.0 * (1 - 0.2 * np.cos(2 * np.pi * 11 / 20)), rel=0.02
    )


def test_a_changing_distribution_is_read():
    stream = StreamSpec(
        dims=3, distribution="0:independent,10:correlated,20:-0.4", distribution_period=30.0
    ).build()
    assert stream.attributes.changes == ((0.0, 0.0), (10.0, 0.5), (20.0, -0.4))
    assert stream.attributes.period == 30.0


def test_key_frequencies_are_read():
    keys = StreamSpec(key_frequencies="5,3,2>2,3,5", key_drift=10.0).build().keys
    assert keys.frequencies_at(5.0).tolist() == pytest.approx([0.35, 0.3, 0.35])


@pytest.mark.parametrize(
    "options",
    [
        {"model": "map"},
        {"rate": -1.0},
        {"superpose": "map2:rate=1,colour=2"},
        {"superpose": "nothing"},
        {"shape": "step:at=10"},
        {"shape": "step:at=ten,factor=2"},
        {"shape": "wave"},
        {"shape": "step:at=1,factor=2,colour=3"},
        {"shape": "daily;flash:at=1,peak=2"},
        {"dims": -1},
        {"dims": 2, "distribution": "correlate"},
        {"dims": 2, "distribution": "0:independent,x:correlated"},
        {"keys": -1},
        {"key_frequencies": "1,x"},
        {"key_drift": -1.0, "keys": 2},
        {"delay_mean": -0.1},
        {"delay_mean": 0.1, "delay": "none"},
        {"seconds": float("nan")},
        {"seed": -1},
    ],
)
def test_nonsense_is_refused_in_one_sentence(options):
    with pytest.raises(PenstockError) as caught:
        StreamSpec(**options).build()
    assert "\n" not in str(caught.value)
