"""What Spark's Python daemon has ready for the workers that are forked from it."""

import importlib
import os
import subprocess
import sys
import zipfile
import zipimport

from penstock.spark.runtime.daemon import keep_unchanged_archives
from waiting import PATIENCE


def archive(path, **modules):
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in modules.items():
            packed.writestr(f"{name}.py", text)


def test_an_archive_is_read_again_only_where_it_has_changed(tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(
        zipimport.zipimporter, "invalidate_caches", lambda finder: reads.append(finder.archive)
    )
    path = str(tmp_path / "packed.zip")
    archive(path, one="value = 1")
    finder = zipimport.zipimporter(path)
    monkeypatch.setitem(sys.path_importer_cache, path, finder)
    keep_unchanged_archives()
    importlib.invalidate_caches()
    assert path not in reads
    archive(path, one="value = 1", another="value = 22")
    importlib.invalidate_caches()
    importlib.invalidate_caches()
    assert reads.count(path) == 1
    late = zipimport.zipimporter(path)  # what came after the daemon's start is read once more, to be sure
    monkeypatch.setitem(sys.path_importer_cache, os.path.join(path, "late"), late)
    importlib.invalidate_caches()
    importlib.invalidate_caches()
    assert reads.count(path) == 1
    os.remove(path)
    importlib.invalidate_caches()
    assert reads.count(path) == 3  # both finders look for themselves


def test_what_a_first_batch_needs_is_loaded_before_workers_are_forked():
    code = (
        "import sys, penstock.spark.runtime.daemon\n"
        "had = set(sys.modules)\n"
        "import pyarrow\n"
        "pyarrow.array([1, 2]).to_numpy()\n"
        "import pyspark.worker, penstock.spark.runtime.workers, penstock.spark.sources.traffic\n"
        "print(*sorted(set(sys.modules) - had))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.split() == []
