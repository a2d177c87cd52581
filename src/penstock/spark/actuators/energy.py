"""Energy counters of the CPU packages (RAPL) through Linux powercap."""

import time
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.spark.actuators.probe_result import ProbeResult

NAME = "energy counters"
ROOT = Path("/sys/class/powercap")


class EnergyMeter:
    """Joules used by all CPU packages since the meter was made.

    A counter starts again from 0 after ``max_energy_range_uj`` (about a minute of full load on some machines), so
    ``joules`` must be read at least once in that time; a step back is counted as one wrap.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._zones = [zone for zone in sorted(root.glob("*-rapl:*")) if zone.name.count(":") == 1]
        if not self._zones:
            raise PenstockError(
                f"This machine offers no energy counters ({root}/intel-rapl:0 is missing): use bare metal, "
                "or the power model of the simulator."
            )
        self._last = [_read(zone / "energy_uj") for zone in self._zones]
        self._total_uj = 0

    def joules(self) -> float:
        """Energy used so far."""
        for index, zone in enumerate(self._zones):
            now = _read(zone / "energy_uj")
            used = now - self._last[index]
            self._total_uj += used if used >= 0 else used + _read(zone / "max_energy_range_uj")
            self._last[index] = now
        return self._total_uj / 1e6


def probe(root: Path = ROOT, wait: float = 0.05) -> ProbeResult:
    """Read the counters twice and see them move."""
    try:
        meter = EnergyMeter(root)
        time.sleep(wait)
        used = meter.joules()
    except PenstockError:
        return ProbeResult(
            NAME,
            False,
            "The kernel shows no RAPL counters under powercap, as on most virtual machines.",
            "Run on bare metal with the intel_rapl module loaded; the simulator's power model stands in elsewhere.",
        )
    except OSError as error:
        return ProbeResult(
            NAME,
            False,
            f"The energy counters may not be read ({error.strerror}).",
            f"Run as root, or let root allow it (chmod a+r {root}/intel-rapl*/energy_uj).",
        )
    if used <= 0:
        return ProbeResult(
            NAME, False, "The energy counters stand still.", "Use a kernel or host that fills them in."
        )
    return ProbeResult(NAME, True, f"{used / wait:.1f} W were drawn while probing.")


def _read(path: Path) -> int:
    return int(path.read_text())
