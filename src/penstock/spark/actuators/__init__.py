"""What the control loop can turn on a real machine or cluster, each with a probe that really tries it."""

from penstock.spark.actuators.cpu_frequency import CpuFrequency
from penstock.spark.actuators.cpu_share import LEVELS, CpuShare, join, sweep
from penstock.spark.actuators.energy import EnergyMeter
from penstock.spark.actuators.executor_status import RegisteredExecutor
from penstock.spark.actuators.executors import Executors
from penstock.spark.actuators.probe_result import ProbeResult
from penstock.spark.actuators.slots import Slots

__all__ = [
    "ProbeResult",
    "CpuFrequency",
    "CpuShare",
    "EnergyMeter",
    "RegisteredExecutor",
    "Executors",
    "LEVELS",
    "Slots",
    "join",
    "sweep",
]
