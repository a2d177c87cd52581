"""axe-core, which finds what keeps people from using a page; fetched from npm at the first use, never part of Penstock.

It is published under MPL-2.0, and its licence stands beside the file in the cache folder.
"""

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from base64 import b64encode
from functools import cache
from pathlib import Path

VERSION = "4.10.3"
SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="

#: What is told of a page: violations with their places, what a person would have to judge, and how much was looked at.
ASK = """axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }).then(r => ({
  violations: r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.target.join(" "))]),
  incomplete: r.incomplete.map(v => [v.impact, v.id, v.nodes.map(n => n.target.join(" "))]),
  passed: r.passes.length }))"""


class Unavailable(Exception):
    """There is no axe-core to be had here, and why."""


@cache
def script() -> Path:
    """The path of ``axe.min.js``; ``PENSTOCK_AXE`` may name one."""
    if named := os.environ.get("PENSTOCK_AXE"):
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = home / "penstock" / f"axe-core-{VERSION}"
    if not (kept / "axe.min.js").exists():
        _unpack(_packed(), kept)
    return kept / "axe.min.js"


def _packed() -> bytes:
    """The package as npm has it, from wherever npm is set up to fetch from."""
    if not (npm := shutil.which("npm")):
        raise Unavailable("there is no npm to fetch axe-core with")
    with tempfile.TemporaryDirectory() as folder:
        call = [npm, "pack", f"axe-core@{VERSION}", "--silent", "--fetch-retries=0", "--fetch-timeout=30000"]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or not found:
            raise Unavailable(f"npm could not fetch axe-core {VERSION}")
        data = found[0].read_bytes()
    assert b64encode(hashlib.sha512(data).digest()).decode() == SHA512, (
        "axe-core is not the one that is known"
    )
    return data


def _unpack(data: bytes, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        for name in ("LICENSE", "axe.min.js"):  # the script last: what is there is whole
            part = folder / f"{name}.part-{os.getpid()}"
            part.write_bytes(package.extractfile(f"package/{name}").read())
            part.replace(folder / name)
