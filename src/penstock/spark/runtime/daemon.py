"""Spark's Python daemon with Penstock loaded already: its workers are forks of it, so each is there at once.

Named by ``spark.python.daemon.module`` in sessions that Penstock makes. A worker that must import pyarrow and load the
compiled kernels first takes most of a second; a fork of this takes a tenth of one.
"""

import contextlib

with contextlib.suppress(ImportError):  # an executor whose host lacks a part still works, only slower
    import penstock.dataflow.invoke
    import penstock.spark.flow.tasks
    import penstock.spark.query.live_stage
    import penstock.spark.query.routing
    import penstock.spark.runtime.resident  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    with contextlib.suppress(ImportError):
        from penstock.core.jit import load_kept

        load_kept()
    manager()
