"""One Spark session for all tests that need one."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import penstock.spark


@pytest.fixture(scope="session")
def spark():
    session = penstock.spark.session("local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster():
    """A standalone cluster on loopback with room for four small executors."""
    from penstock.spark.cluster import LocalCluster

    with LocalCluster(workers=2, cores=2, memory="2g") as running:
        yield running


@pytest.fixture
def drive(cluster, tmp_path):
    """Run a driver program on the cluster in a child process: a process holds one Spark context, ours is local."""
    children = []

    def start(code, *arguments):
        script = tmp_path / f"driver-{len(children)}.py"
        script.write_text(textwrap.dedent(code))
        child = subprocess.Popen(
            [sys.executable, str(script), cluster.master, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
