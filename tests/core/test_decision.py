import pickle

import pytest

from penstock.core import Change, Decision, Knob
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (Knob.WORKERS, -1),
        (Knob.WORKERS, 1.5),
        (Knob.WORKERS, float("nan")),
        (Knob.WORKERS, (1, 2)),
        (Knob.CPU_SHARE, 0.0),
        (Knob.FREQUENCY, float("inf")),
        (Knob.SHEDDING, 1.1),
        (Knob.PIPELINES, (1, 2)),
        (Knob.PIPELINES, (0, 2, 2)),
        (Knob.PIPELINES, 3),
        (Knob.ROUTING, ()),
        (Knob.ROUTING, (0, -1)),
    ],
)
def test_an_impossible_value_is_refused_in_one_sentence(knob, value):
    with pytest.raises(PenstockError, match=f"A change of {knob.value} at 'x' needs"):
        Change(knob, "x", value)


def test_whole_knobs_hold_whole_numbers():
    assert isinstance(Change(Knob.WORKERS, "x", 3.0).value, int)


def test_a_decision_names_each_knob_of_a_place_once():
    with pytest.raises(PenstockError, match="twice"):
        Decision((Change(Knob.WORKERS, "x", 1), Change(Knob.WORKERS, "x", 2)))


def test_a_decision_gives_its_values_by_knob_and_place():
    decision = Decision((Change(Knob.WORKERS, "x", 3), Change(Knob.PIPELINES, "r", (0, 2))), "because")
    assert decision.value(Knob.WORKERS, "x") == 3
    assert decision.value(Knob.PIPELINES, "r") == (0, 2)
    assert decision.value(Knob.WORKERS, "y") is None
    assert decision.number(Knob.WORKERS, "y", 7) == 7


def test_every_metric_has_a_unit_a_direction_and_a_meaning():
    for metric in Metric:
        assert metric.unit
        assert metric.better in (-1, 0, 1)
        assert metric.meaning[0].islower() or metric.meaning[0].isdigit()
        assert pickle.loads(pickle.dumps(metric)) is metric
