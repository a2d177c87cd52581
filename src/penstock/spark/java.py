"""Which Java Spark will run on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import PenstockError

OLDEST = 17


@dataclass(frozen=True)
class Java:
    """A Java installation: its home folder and its version."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """The number it begins with, 17 for 17.0.15 and 25 for 25-ea."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])


def find_java() -> Java:
    """The first Java of version 17 or newer in ``JAVA_HOME``, on ``PATH`` or under ``/usr/lib/jvm``."""
    too_old: Java | None = None
    for program in _candidates():
        found = _version(program)
        if found is None:
            continue
        if found.major >= OLDEST:
            return found
        too_old = found
    if too_old is not None:
        raise PenstockError(
            f"Spark needs Java {OLDEST} or newer but found {too_old.version} in {too_old.home}: "
            "install a newer one (for example openjdk-17-jre-headless) or set JAVA_HOME to it."
        )
    raise PenstockError(
        f"Spark needs Java {OLDEST} or newer and none was found: "
        "install one (for example openjdk-17-jre-headless) or set JAVA_HOME."
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def _version(program: Path) -> Java | None:
    try:
        # Of a script on PATH, as managers of versions have it, only the Java behind it knows its home.
        said = subprocess.run(
            [str(program), "-XshowSettings:properties", "-version"],
            capture_output=True, text=True, errors="replace", timeout=30,
        ).stderr  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "([0-9][^"]*)"', said)
    homes = [
        *map(Path, re.findall(r"^ *java\.home = (.*\S)", said, re.MULTILINE)),
        program.resolve().parent.parent,
    ]
    home = next((home for home in homes if os.access(home / "bin" / "java", os.X_OK)), None)
    return Java(home, version[1]) if version and home else None
