"""What this machine is: versions, cores, memory. The facts behind ``penstock doctor``."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.java import find_java

#: What Penstock itself needs, and what Spark's Python state API needs on top.
PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "scipy", "numba")
OPTIONAL = {"protobuf": "needed only for Spark's own transformWithState in Python"}


def facts(meminfo: Path = Path("/proc/meminfo")) -> dict[str, Any]:
    """Python, Java, Spark and library versions, cores and memory; a missing part is named in ``problems``."""
    problems = []
    try:
        java = find_java()
        found_java = {"version": java.version, "home": str(java.home)}
    except PenstockError as error:
        found_java = None
        problems.append(str(error))
    versions = {name: _version(name) for name in PACKAGES}
    problems += [
        f"The package {name} is missing: install Penstock with its dependencies (make setup)."
        for name, found in versions.items()
        if found is None
    ]
    if versions["pandas"] is not None and int(versions["pandas"].split(".")[0]) >= 3:
        problems.append(
            f"pandas {versions['pandas']} is not supported by this Spark: install pandas 2 (pip install 'pandas<3')."
        )
    extra = {name: _version(name) or f"missing ({why})" for name, why in OPTIONAL.items()}
    return {
        "python": {"version": platform.python_version(), "path": sys.executable},
        "java": found_java,
        "spark": versions.pop("pyspark"),
        "packages": versions | extra,
        "cores": {"machine": os.cpu_count() or 1, "usable": usable_cores()},
        "memory_gb": _memory(meminfo),
        "system": f"{platform.system()} {platform.release()}",
        "problems": problems,
    }


def usable_cores() -> int:
    """Cores this process may run on; a container often has fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory(meminfo: Path) -> dict[str, float] | None:
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        return {
            "total": round(int(lines["MemTotal"].split()[0]) / 2**20, 1),
            "available": round(int(lines["MemAvailable"].split()[0]) / 2**20, 1),
        }
    except (OSError, KeyError, ValueError):
        return None
