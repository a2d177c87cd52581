"""CPU frequency, energy counters and slots, on folders that look like the kernel's."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import sysfs
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.running_figures import running_count
from penstock.policies import Fuzzy, Mpc, Static, Threshold
from penstock.policies.lag import HeldToLag
from penstock.spark.actuators import cpu_frequency, energy, power
from penstock.spark.actuators.cpu_frequency import CpuFrequency
from penstock.spark.actuators.energy import EnergyMeter
from penstock.spark.actuators.executor_status import RegisteredExecutor
from penstock.spark.actuators.local_executors import LocalExecutors
from penstock.spark.actuators.power import MachinePower, counts_power, machine_power, refuse_power
from penstock.spark.actuators.slots import Slots
from penstock.testing.flow_run import start_in_process
from waiting import until


@operator(keys="k", state={"n": int}, output={"k": int})
def count(rows, state, output):
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


@pytest.fixture
def cpufreq(tmp_path):
    return sysfs.cpufreq(tmp_path)


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
    return sysfs.powercap(tmp_path)


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


@pytest.mark.parametrize(
    "policy",
    [
        Mpc(cost="power", speeds=(1.2, 2.0)),
        HeldToLag(Mpc(cost="power", speeds=(1.2, 2.0), knob=Knob.EXECUTORS), lag=100.0),
        Threshold(knob=Knob.FREQUENCY, levels=(1.2, 2.0)),
        Static(settings=(Change(Knob.FREQUENCY, "q", 1.2),)),
        Fuzzy(frequencies=(1.2, 2.0)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_whoever_sets_frequencies_counts_power(policy):
    assert counts_power(policy)
    assert not counts_power(Threshold())


class Executor:
    """A process that is started as Spark starts an executor."""

    def __init__(self, id_, application):
        waits = ["-c", "import sys; sys.stdin.read()", "--executor-id", id_, application]
        self.process = subprocess.Popen(
            ["/nowhere/java", *waits], executable=sys.executable, stdin=subprocess.PIPE
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def test_executors_here_are_told_from_those_elsewhere():
    ours, theirs = (RegisteredExecutor(i, h, 1, 0, 0.0, 0, 0.0) for i, h in (("1", "here"), ("2", "far")))
    local = LocalExecutors("app-of-the-test")
    with Executor("1", "app-of-the-test"), Executor("2", "another-app"):
        until(lambda: local.elsewhere([ours]) == (), "the executor's process")
        assert local.elsewhere([ours, theirs]) == ("far",)


def test_power_is_refused_where_an_executor_runs_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_frequency, "ROOT", sysfs.cpufreq(tmp_path))
    everyone = [RegisteredExecutor(i, h, 1, 0, 0.0, 0, 0.0) for i, h in (("driver", "here"), ("7", "far"))]
    monkeypatch.setattr(power, "registered", lambda session: everyone)
    session = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-of-the-test"))
    policy = Mpc(cost="power", speeds=(1.2, 2.0))
    with pytest.raises(PenstockError, match="executors run on far"):
        machine_power(session, policy)
    assert machine_power(session, Mpc()) is None
    everyone.pop()
    assert machine_power(session, policy).capacity.observed == 1.9
