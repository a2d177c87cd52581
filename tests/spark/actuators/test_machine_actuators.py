"""CPU frequency, energy counters and slots, on folders that look like the kernel's."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.running_figures import running_count
from penstock.policies import Mpc
from penstock.spark.actuators import cpu_frequency, energy
from penstock.spark.actuators.cpu_frequency import CpuFrequency
from penstock.spark.actuators.energy import EnergyMeter
from penstock.spark.actuators.power import MachinePower, refuse_power
from penstock.spark.actuators.slots import Slots
from penstock.testing.flow_run import start_in_process


@operator(keys="k", state={"n": int}, output={"k": int})
def count(rows, state, output):
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


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


@pytest.fixture
def powercap(tmp_path):
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "energy_uj").write_text("1000000")
    (zone / "max_energy_range_uj").write_text("9000000")
    return tmp_path


def test_a_flow_sets_frequencies_and_tells_its_power_where_the_machine_can(cpufreq, powercap, tmp_path):
    graph = Graph("powered")
    graph.source("rows", {"k": int}).through(count).sink("out")
    run = start_in_process(graph, tmp_path / "run")
    run._program.power = MachinePower(cpufreq, powercap)
    feed = {"rows": pa.table({"k": np.arange(10)})}
    run.feed(feed)
    plant = run.controller.plant
    assert plant.observe().stage("count/0").frequency == Capacity(1.9, 1.9, 1.9, 2.0)
    done = plant.apply(Decision((Change(Knob.FREQUENCY, "count/0", 1.5),), "the test says so"))
    assert not done.refused
    (powercap / "intel-rapl:0/energy_uj").write_text("4000000")
    run.feed(feed)
    seen = plant.observe()
    assert seen.stage("count/0").frequency.observed == 1.5
    assert seen.extra["power"] > 0
    run.finish()
    run._program.close()
    assert (cpufreq / "cpufreq/policy0/scaling_max_freq").read_text() == "1900000"


def test_a_policy_that_counts_power_is_refused_aloud_where_nothing_sets_frequencies(tmp_path):
    policy = Mpc(cost="power", speeds=(1.2, 2.0))
    with pytest.raises(PenstockError, match="no frequencies to set"):
        MachinePower(tmp_path)
    with pytest.raises(PenstockError, match="counts power"):
        refuse_power(policy, "a query")
    refuse_power(Mpc(), "a query")
