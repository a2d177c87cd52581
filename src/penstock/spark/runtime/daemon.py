"""Spark's Python daemon with Penstock loaded already: its workers are forks of it, so each is there at once.

Named by ``spark.python.daemon.module`` in sessions that Penstock makes. A worker that must import pyarrow and load the
compiled kernels first takes most of a second; a fork of this takes a hundredth of one. Pandas is loaded for pyarrow,
which looks for it at the first array made from Python's values: in a worker's first batch that would be half a second.
"""

# ruff: noqa: F401 - loaded, not used
import contextlib
import ctypes
import gc
import os
import sys
import zipimport
from typing import Any

with contextlib.suppress(ImportError):  # an executor whose host lacks a part still works, only slower
    import pandas
    import pyarrow.pandas_compat
    import pyspark.worker

    import penstock.dataflow.invoke
    import penstock.spark.flow.tasks
    import penstock.spark.query.live_stage
    import penstock.spark.query.routing
    import penstock.spark.runtime.resident
    import penstock.spark.runtime.workers
    import penstock.spark.sources.traffic

    pyarrow.array([0])  # now it has looked for pandas

#: Bytes that a worker keeps for its next arrays, at most; numbers of two settings of glibc's mallopt.
KEPT_BYTES = 256 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_unchanged_archives() -> None:
    """Have archives on the path read again only where they have changed.

    Before each task Spark lets Python look anew at everything on its path. The zip import of Python 3.11 then reads the
    list of an archive again for every package that came out of it, which for Spark's own is a third of a CPU second.
    """
    read: dict[tuple[str, str], tuple[int, int]] = {}
    look_anew = zipimport.zipimporter.invalidate_caches

    def changed(finder: Any) -> bool:
        of, found = (finder.archive, finder.prefix), os.stat(finder.archive)
        before, read[of] = read.get(of), (found.st_mtime_ns, found.st_size)
        return before != read[of]

    def look_if_changed(finder: Any) -> None:
        with contextlib.suppress(OSError):
            if not changed(finder):
                return
        look_anew(finder)

    for known in sys.path_importer_cache.values():
        if isinstance(known, zipimport.zipimporter):
            with contextlib.suppress(OSError):
                changed(known)  # read a moment ago
    zipimport.zipimporter.invalidate_caches = look_if_changed  # type: ignore[method-assign, assignment]


def reuse_memory() -> None:
    """Have freed arrays used again by the next ones, where the C library is glibc.

    By itself it gives every array of megabytes back to the system and asks for it anew, a page at a time, which takes
    longer than most of what is done with the array.
    """
    with contextlib.suppress(OSError, AttributeError):
        for setting in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            ctypes.CDLL(None).mallopt(setting, KEPT_BYTES)


if __name__ == "__main__":
    from pyspark.daemon import manager

    with contextlib.suppress(ImportError):
        from penstock.core.jit import load_kept

        load_kept()
    keep_unchanged_archives()
    reuse_memory()
    gc.freeze()  # what workers share with this process stays shared
    manager()
