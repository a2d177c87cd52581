"""Folders that look like the kernel's: CPU frequencies and energy counters."""

from pathlib import Path


def cpufreq(folder: Path) -> Path:
    """Two cores from 1.2 to 2.0 GHz, capped at 1.9."""
    for number in range(2):
        policy = folder / "cpufreq" / f"policy{number}"
        policy.mkdir(parents=True)
        for name, khz in {
            "cpuinfo_min_freq": 1_200_000,
            "cpuinfo_max_freq": 2_000_000,
            "scaling_max_freq": 1_900_000,
        }.items():
            (policy / name).write_text(str(khz))
    return folder


def cap(folder: Path) -> str:
    """The cap of the first core in kHz, as it was written; empty while it is being written."""
    return (folder / "cpufreq/policy0/scaling_max_freq").read_text()


def powercap(folder: Path) -> Path:
    """One package that has used a joule."""
    zone = folder / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "energy_uj").write_text("1000000")
    (zone / "max_energy_range_uj").write_text("9000000")
    return folder
