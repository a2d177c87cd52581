"""CPU frequency through Linux cpufreq: the highest frequency the cores may use is lowered and raised."""

import contextlib
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.spark.actuators.probe_result import ProbeResult

NAME = "CPU frequency"
ROOT = Path("/sys/devices/system/cpu")


class CpuFrequency:
    """Caps the frequency of all cores; ``close`` gives back what was there before.

    ``scaling_max_freq`` is written rather than the frequency itself, since every driver and governor honours it,
    while a fixed frequency needs the ``userspace`` governor, which many machines lack.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._policies = sorted(root.glob("cpufreq/policy[0-9]*")) or sorted(root.glob("cpu[0-9]*/cpufreq"))
        if not self._policies:
            raise PenstockError(
                f"This machine offers no CPU frequency control ({root}/cpufreq is missing): use bare metal, "
                "or the simulator."
            )
        self._before = {p: _read(p / "scaling_max_freq") for p in self._policies}

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest frequency of the hardware in GHz."""
        low = max(_read(p / "cpuinfo_min_freq") for p in self._policies)
        high = min(_read(p / "cpuinfo_max_freq") for p in self._policies)
        return low / 1e6, high / 1e6

    @property
    def cap(self) -> float:
        """The highest frequency the cores may use now, in GHz."""
        return min(_read(p / "scaling_max_freq") for p in self._policies) / 1e6

    def set_cap(self, ghz: float) -> float:
        """Lower or raise the cap; returns what the kernel then reports (hardware has steps), in GHz."""
        low, high = self.limits
        if not low <= ghz <= high:
            raise PenstockError(f"{ghz} GHz is outside what this CPU can do: choose {low} to {high} GHz.")
        for policy in self._policies:
            (policy / "scaling_max_freq").write_text(str(round(ghz * 1e6)))
        return self.cap

    def close(self) -> None:
        """Give back the caps that were there before."""
        for policy, khz in self._before.items():
            with contextlib.suppress(OSError):  # a core taken offline meanwhile has nothing to give back
                (policy / "scaling_max_freq").write_text(str(khz))

    def __enter__(self) -> "CpuFrequency":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def probe(root: Path = ROOT) -> ProbeResult:
    """Lower the cap to the middle of the range, read it back, and give back the old one."""
    try:
        with CpuFrequency(root) as frequency:
            low, high = frequency.limits
            read_back = frequency.set_cap(round((low + high) / 2, 1) if low < high else high)
    except PenstockError:
        return ProbeResult(
            NAME,
            False,
            "The kernel shows no cpufreq driver, as on most virtual machines.",
            "Run on bare metal (or a metal instance) with a cpufreq driver loaded; the simulator models it elsewhere.",
        )
    except OSError as error:
        return ProbeResult(
            NAME, False, f"The frequency cap may not be written ({error.strerror}).", "Run as root."
        )
    return ProbeResult(
        NAME, True, f"{low:g} to {high:g} GHz; a cap of {read_back:g} GHz was written and read back."
    )


def _read(path: Path) -> int:
    return int(path.read_text())
