"""What ``pip install penstock`` brings: the wheel, in a virtual environment with its declared dependencies and no others."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from waiting import PATIENCE

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    (built,) = folder.glob("penstock-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of a virtual environment that holds the wheel and what it declares to need, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=PATIENCE)
    site = next((folder / "lib").glob("python3.*")) / "site-packages"
    python = folder / "bin" / "python"
    alone = ("--no-deps", "--no-index", "--disable-pip-version-check")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *alone, str(wheel)]
    subprocess.run(pip, check=True, timeout=PATIENCE)
    (info,) = site.glob("penstock-*.dist-info")
    declared = re.findall(r"^Requires-Dist: (.*)$", (info / "METADATA").read_text(), flags=re.M)
    for name in _closure(declared):
        _link(name, site)
    _keep_compiled(site / "penstock")
    return python


def _closure(declared):
    """The names of all distributions that these requirements lead to here, without extras."""
    found, waiting = set(), list(declared)
    while waiting:
        needed = Requirement(waiting.pop())
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(needed.name)
        if name not in found:
            found.add(name)
            waiting += distribution(name).requires or []
    return found


def _link(name, site):
    """Make an installed distribution visible in another environment, its files and its metadata."""
    files = distribution(name).files or []
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(distribution(name).locate_file(top)).resolve())


def _keep_compiled(package):
    """Take over what numba has compiled of the same sources: it goes by their times and sizes."""
    for source in (ROOT / "src" / "penstock").rglob("*.py"):
        installed = package / source.relative_to(ROOT / "src" / "penstock")
        if installed.exists() and installed.read_bytes() == source.read_bytes():
            shutil.copystat(source, installed)
    for compiled in (ROOT / "src" / "penstock").rglob("__pycache__/*.nb[ci]"):
        target = package / compiled.relative_to(ROOT / "src" / "penstock")
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(compiled, target)


def _environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK"))}


def _run(python, *arguments, **options):
    return subprocess.run(
        [str(python), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=_environment(),
        **options,
    )


def test_the_wheel_has_the_package_and_no_experiments(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "penstock/__init__.py" in names
    assert "penstock/py.typed" in names
    assert {
        f"penstock/page/static/{n}" for n in ("page.html", "page.js", "uPlot.iife.min.js", "uPlot.LICENSE")
    } <= set(names)
    assert {n.split("/")[0].split("-")[0] for n in names} == {"penstock"}
    assert not [n for n in names if re.search(r"penstock_lab|papers|bench|/trials/|tests?/", n)]


def test_what_is_not_declared_is_not_there(python):
    for module in ("pytest", "hypothesis", "moocore", "penstock_lab"):
        done = _run(python, "-c", f"import {module}")
        assert "ModuleNotFoundError" in done.stderr, module


@pytest.mark.parametrize("command", ["bench", "papers"])
def test_experiments_that_are_not_installed_are_one_sentence_and_code_2(python, command):
    done = _run(python, "-m", "penstock", command, "mpc", "--scale", "0.1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip() == (
        f"penstock: penstock {command} is part of penstock-lab, which is not installed: "
        "clone the repository and run make setup."
    )


def test_every_module_of_the_wheel_can_be_imported(python):
    code = """
        import importlib, pkgutil, penstock
        for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    """
    done = _run(python, "-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr


#: Runs a program that starts a run, and ends the run when a window that ends late enough is out.
DRIVE = """
import json, sys, threading, time
import pyarrow.dataset as ds

names = {}

def until_done():
    while True:
        time.sleep(0.2)
        try:
            ends = ds.dataset("results/", format="parquet").to_table(columns=["window_end"])["window_end"].to_pylist()
        except (OSError, KeyError, ValueError):  # nothing is committed yet
            continue
        if ends and max(ends).timestamp() >= float(sys.argv[1]):
            return names["run"].stop()

threading.Thread(target=until_done, daemon=True).start()
exec(compile(open("program.py").read(), "program.py", "exec"), names)
names["run"].await_termination()
rows = names["spark"].read.parquet("results/").collect()
out = [[r.window_start.timestamp(), r.window_end.timestamp(), r.price, r.rating] for r in rows]
print(json.dumps(sorted(out)))
"""


@pytest.mark.long
@pytest.mark.spark
def test_the_first_query_of_the_readme_runs_with_the_declared_dependencies_alone(python, tmp_path):
    program = (
        (ROOT / "README.md")
        .read_text()
        .split("## A query: the best rows of the last second")[1]
        .split("```python")[1]
        .split("```")[0]
    )
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "drive.py").write_text(DRIVE)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    offers = [
        (n * 50, (n * 37) % 101 + 0.5, (n * 53) % 89 + 0.25) for n in range(80)
    ]  # milliseconds, price, rating
    _write_offers(tmp_path / "offers" / "first.parquet", start, offers[:50])
    # One offer far later completes all windows of those before it.
    _write_offers(tmp_path / "offers" / "second.parquet", start, [*offers[50:], (3_600_000, 1.0, 1.0)])
    last = start.timestamp() + 4.8
    done = _run(python, "drive.py", str(last), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [r for r in json.loads(done.stdout.splitlines()[-1]) if r[1] <= last + 1e-6]
    assert [[round(v, 6) for v in row] for row in found] == _expected(start.timestamp(), offers)


def _write_offers(path, start, offers):
    path.parent.mkdir(exist_ok=True)
    times, prices, ratings = zip(*offers, strict=True)
    stamps = pa.array([start + timedelta(milliseconds=t) for t in times], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"event_time": stamps, "price": prices, "rating": ratings}), path)


def _expected(start, offers):
    """All windows of one second, every 200 ms, that hold an offer; in each the offers that no other one beats."""
    rows = []
    for begin in range(-800, 4_000, 200):
        inside = [(p, r) for t, p, r in offers if begin <= t < begin + 1_000]
        for price, rating in inside:
            if not any(p <= price and r >= rating and (p, r) != (price, rating) for p, r in inside):
                rows.append([round(start + begin / 1e3, 6), round(start + begin / 1e3 + 1, 6), price, rating])
    return sorted(rows)
