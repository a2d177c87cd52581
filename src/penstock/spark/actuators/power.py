"""Frequency and energy of the machine, for policies that count power: used where the kernel lets us, refused elsewhere."""

import contextlib
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.capacity import Capacity, Knob
from penstock.core.errors import PenstockError
from penstock.policies import Static
from penstock.policies.around import Around
from penstock.spark.actuators import cpu_frequency, energy
from penstock.spark.actuators.cpu_frequency import CpuFrequency
from penstock.spark.actuators.energy import EnergyMeter
from penstock.spark.actuators.executor_status import registered
from penstock.spark.actuators.local_executors import LocalExecutors


def counts_power(policy: Any) -> bool:
    """Whether a policy sets frequencies or counts power.

    >>> from penstock.policies import Mpc
    >>> counts_power(Mpc()), counts_power(Mpc(cost="power", speeds=(1.2, 2.0)))
    (False, True)
    """
    if isinstance(policy, Around):
        return counts_power(policy.policy)
    speeds = bool(getattr(policy, "speeds", ())) and getattr(policy, "speed_knob", None) is Knob.FREQUENCY
    fixed = [change.knob for change in policy.settings] if isinstance(policy, Static) else []
    counts = getattr(policy, "cost", "") == "power" or bool(getattr(policy, "frequencies", ()))
    return counts or speeds or Knob.FREQUENCY in (getattr(policy, "knob", None), *fixed)


def refuse_power(policy: Any, what: str) -> None:
    """Say aloud that here nothing sets frequencies."""
    if counts_power(policy):
        raise PenstockError(
            f"The policy counts power or sets frequencies, which {what} cannot: use it on a flow or an attached query "
            'on one machine with cpufreq, or in the simulator; here choose cost="cores" and no speeds.'
        )


def machine_power(session: SparkSession, policy: Any) -> "MachinePower | None":
    """What a policy that counts power needs, None for any other; refused where this machine is not the executors'."""
    if not counts_power(policy):
        return None
    application = str(session.sparkContext.applicationId)
    away = LocalExecutors(application).elsewhere(e for e in registered(session) if e.id != "driver")
    if away:
        raise PenstockError(
            f"The policy counts power or sets frequencies, which can be done on this machine alone, and executors run on {', '.join(away)}: "
            'run them all here, or choose cost="cores" and no speeds.'
        )
    return MachinePower()


class MachinePower:
    """The frequency cap of all cores, and the energy counters where there are any."""

    def __init__(self, cpufreq: Path | None = None, powercap: Path | None = None) -> None:
        root = cpufreq or cpu_frequency.ROOT
        ability = cpu_frequency.probe(root)
        if not ability.works:
            raise PenstockError(
                f"The policy counts power, and this machine has no frequencies to set: {ability.found} {ability.how} "
                'Or choose cost="cores" and no speeds.'
            )
        self._frequency = CpuFrequency(root)
        self._meter: EnergyMeter | None = None
        self._last = (0.0, 0.0)
        with contextlib.suppress(PenstockError, OSError):  # power is then told by nobody
            self._meter = EnergyMeter(powercap or energy.ROOT)

    @property
    def capacity(self) -> Capacity:
        """The cap as a knob, in GHz."""
        return Capacity(
            self._frequency.cap, self._frequency.cap, self._frequency.cap, self._frequency.limits[1]
        )

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest cap in GHz."""
        return self._frequency.limits

    def set(self, ghz: float) -> None:
        """Set the cap."""
        self._frequency.set_cap(ghz)

    def watts(self, now: float) -> float | None:
        """Power drawn since the last call; None at the first, or without counters."""
        if self._meter is None:
            return None
        joules, (before, then) = self._meter.joules(), self._last
        self._last = (joules, now)
        return (joules - before) / (now - then) if then and now > then else None

    def close(self) -> None:
        """Give back the cap that was there before."""
        self._frequency.close()
