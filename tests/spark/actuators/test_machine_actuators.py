"""CPU frequency, energy counters and slots, on folders that look like the kernel's."""

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.actuators import cpu_frequency, energy
from penstock.spark.actuators.cpu_frequency import CpuFrequency
from penstock.spark.actuators.energy import EnergyMeter
from penstock.spark.actuators.slots import Slots


@pytest.fixture
def cpufreq(tmp_path):
    for number in range(2):
        policy = tmp_path / "cpufreq" / f"policy{number}"
        policy.mkdir(parents=True)
        for name, khz in {
            "cpuinfo_min_freq": 1_200_000,
            "cpuinfo_max_freq": 2_000_000,
            "scaling_max_freq": 1_900_000,
        }.items():
            (policy / name).write_text(str(khz))
    return tmp_path


def test_a_frequency_cap_is_set_on_all_cores_and_given_back(cpufreq):
    with CpuFrequency(cpufreq) as frequency:
        assert frequency.limits == (1.2, 2.0)
        assert frequency.set_cap(1.5) == 1.5
        assert (cpufreq / "cpufreq/policy1/scaling_max_freq").read_text() == "1500000"
    assert (cpufreq / "cpufreq/policy1/scaling_max_freq").read_text() == "1900000"


def test_a_frequency_outside_the_hardware_is_refused(cpufreq):
    with CpuFrequency(cpufreq) as frequency, pytest.raises(PenstockError, match="outside"):
        frequency.set_cap(3.0)


def test_the_frequency_probe_tries_and_says_why_not(cpufreq, tmp_path):
    assert cpu_frequency.probe(cpufreq).works
    missing = cpu_frequency.probe(tmp_path / "nothing")
    assert not missing.works
    assert missing.how


def rapl(folder, microjoules):
    zone = folder / "intel-rapl:0"
    zone.mkdir(exist_ok=True)
    (zone / "energy_uj").write_text(str(microjoules))
    (zone / "max_energy_range_uj").write_text("1000000")
    core = folder / "intel-rapl:0:0"
    core.mkdir(exist_ok=True)
    (core / "energy_uj").write_text("999")  # part of the package, must not be counted twice


def test_energy_is_counted_per_package_across_a_wrap(tmp_path):
    rapl(tmp_path, 900_000)
    meter = EnergyMeter(tmp_path)
    assert meter.joules() == 0
    rapl(tmp_path, 950_000)
    assert meter.joules() == pytest.approx(0.05)
    rapl(tmp_path, 100_000)
    assert meter.joules() == pytest.approx(0.2)


def test_the_energy_probe_says_why_not(tmp_path):
    assert "RAPL" in energy.probe(tmp_path).found
    rapl(tmp_path, 1)
    assert "stand still" in energy.probe(tmp_path, wait=0.0).found


def test_slots_change_all_stages_at_once_or_none():
    slots = Slots({"pane": 1, "window": 2}, most=4)
    with pytest.raises(PenstockError, match="cannot have 5 slots"):
        slots.set({"pane": 3, "window": 5})
    assert dict(slots.read()) == {"pane": 1, "window": 2}
    with pytest.raises(PenstockError, match="Unknown stage 'pain'"):
        slots.set({"pain": 1})
