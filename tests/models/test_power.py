import pytest

from penstock.core.errors import PenstockError
from penstock.models.power import PowerModel


def test_power_is_cores_times_frequency_times_voltage_squared() -> None:
    model = PowerModel({1.0: 0.8, 2.0: 1.0})
    assert model.power(3, 2.0) == pytest.approx(6.0)
    assert model.power(3, 1.0) == pytest.approx(3 * 0.64)
    assert model.voltage(1.5) == pytest.approx(0.9)
    assert model.energy(3, 2.0, seconds=10.0) == pytest.approx(60.0)
    assert PowerModel({1.0: 1.0}, watts_per_unit=4.0).power(2, 1.0) == pytest.approx(8.0)


def test_the_default_table_spans_the_frequencies_of_the_paper() -> None:
    assert PowerModel().frequencies == (1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)


def test_impossible_configurations_are_refused() -> None:
    with pytest.raises(PenstockError, match="outside the voltage table"):
        PowerModel().power(1, 3.0)
    with pytest.raises(PenstockError):
        PowerModel({})
    with pytest.raises(PenstockError):
        PowerModel().power(-1, 2.0)
    with pytest.raises(PenstockError):
        PowerModel(watts_per_unit=0.0)
