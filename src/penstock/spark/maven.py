"""Java packages from Maven Central, by the Ivy that comes with Spark; kept in the user's cache folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.spark.java import find_java

_MODULE = """<ivy-module version="2.0">
  <info organisation="penstock" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
{lines}
  </dependencies>
</ivy-module>
"""


def cache_folder() -> Path:
    """Where fetched packages are kept: ``$XDG_CACHE_HOME/penstock``, or ``~/.cache/penstock``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock"


def fetched(name: str, packages: Sequence[str], overrides: Mapping[str, str] | None = None) -> Path:
    """A folder with the jars of some packages (``group:artifact:version``) and of all they need.

    It is fetched once and kept under ``name``. ``overrides`` gives other versions of packages (``group:artifact``) that
    are needed by others. ``PENSTOCK_IVY_SETTINGS`` may name a file of settings for Ivy, as ``spark.jars.ivySettings`` does.
    """
    folder = cache_folder() / "jars" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as work:
        jars = Path(work) / "jars"
        _retrieve(name, packages, overrides or {}, Path(work), jars)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process may have been quicker
                raise
    return folder


def forget(name: str) -> None:
    """Remove kept jars, so that they are fetched again."""
    shutil.rmtree(cache_folder() / "jars" / name, ignore_errors=True)


def _retrieve(
    name: str, packages: Sequence[str], overrides: Mapping[str, str], work: Path, jars: Path
) -> None:
    lines = ['    <dependency org="{}" name="{}" rev="{}"/>'.format(*p.split(":")) for p in packages]
    lines += [
        '    <override org="{}" module="{}" rev="{}"/>'.format(*k.split(":"), v) for k, v in overrides.items()
    ]
    module = work / "ivy.xml"
    module.write_text(_MODULE.format(name=name, lines="\n".join(lines)))
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    command = [
        str(find_java().home / "bin" / "java"),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        str(_ivy()),
        "org.apache.ivy.Main",
        "-novalidate",
        *(["-settings", settings] if settings else []),
        *[
            "-cache",
            str(cache_folder() / "ivy"),
            "-ivy",
            str(module),
            "-confs",
            "default",
            "-types",
            "jar",
            "bundle",
        ],
        *["-retrieve", f"{jars}/[artifact]-[revision].[ext]"],
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if ran.returncode or not jars.is_dir():
        raise PenstockError(
            f"The packages {', '.join(packages)} could not be fetched from Maven Central ({_reason(ran.stdout + ran.stderr)})."
        )


def _ivy() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = sorted((Path(found.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise PenstockError(
            "This Spark brings no Ivy to fetch packages with; give jars with config={'spark.jars': ...}."
        )
    return jars[-1]


def _reason(output: str) -> str:
    """The line of Ivy's report that says what went wrong."""
    lines = [line.strip() for line in output.splitlines()]
    for words in (
        "module not found",
        "unresolved dependency",
        "Server access error",
        "UnknownHost",
        "FAILED",
    ):
        for line in lines:
            if words in line:
                return line.strip(": ")
    return lines[-1] if lines else "it said nothing"
