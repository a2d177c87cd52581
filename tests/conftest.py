"""What all tests share: settings of property tests, recorded data, one Spark session, one cluster, and who runs where."""

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline for one example (compiled loops load on first use), and in CI the same examples each time.
settings.register_profile(
    "penstock", deadline=None, derandomize=os.environ.get("CI") == "true", print_blob=True
)
settings.load_profile("penstock")

# Python workers of Spark and children of tests load modules of the tests too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
)

# Drivers of tests live for seconds: the optimising compiler and a parallel collector cost more than they give.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

#: The two groups of tests that have a Spark session each: queries and pages, and all others.
QUERIES, FLOWS = "spark: queries", "spark: flows"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one session or one cluster run in one process, first of all; of the others, those of one file do.

    What takes long begins early, so that all processes end at about the same time.
    """
    sizes = Counter(map(_group, items))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
        if _group(item) in ("cluster", "services") or {"spark", "kill"} <= {
            m.name for m in item.iter_markers()
        }:
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: (_turn(item), -sizes[_group(item)]))


def _turn(item: pytest.Item) -> int:
    drives = item.get_closest_marker("spark") or item.get_closest_marker("cluster")
    turns = {QUERIES: 0, FLOWS: 0, "cluster": 1, "services": 2}
    return turns.get(_group(item), 3 if drives else 4)


def _group(item: pytest.Item) -> str:
    asked = getattr(item, "fixturenames", ())
    if {"broker", "s3_server"} & set(asked):
        return "services"  # with a session of their own: after all others they would end last
    if "spark" in asked:
        # Runs mostly wait for Spark's planning and for workers to start: two sessions side by side share two cores well.
        return QUERIES if item.nodeid.startswith(("tests/spark/query", "tests/test_")) else FLOWS
    if "cluster" in asked:
        return "cluster"
    return item.nodeid.partition("::")[0]


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    """The pictures that a test draws, each held to what is promised of every one."""
    import penstock.picture
    from drawn import check

    figures, write = [], penstock.picture._write

    def checked(figure, path):
        check(figure)
        figures.append(figure)
        write(figure, path)

    monkeypatch.setattr(penstock.picture, "_write", checked)
    return figures


@pytest.fixture
def recorded(monkeypatch):
    """The folder of recorded data, as excerpts."""
    folder = Path(__file__).parent / "data"
    monkeypatch.setenv("PENSTOCK_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def spark():
    import penstock.spark

    session = penstock.spark.session(
        "local[4]", config={"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster():
    """A standalone cluster on loopback with room for four small executors."""
    from penstock.spark.cluster import LocalCluster

    with LocalCluster(workers=2, cores=2, memory="2g") as running:
        yield running


@pytest.fixture(scope="session")
def broker():
    """Apache Kafka on loopback, one for all tests."""
    pytest.importorskip(
        "confluent_kafka", reason="Kafka's client is not installed: pip install 'penstock[kafka]'"
    )
    from penstock.core.errors import PenstockError
    from penstock.testing.kafka import LocalBroker

    running = LocalBroker()
    try:
        running.start()
    except PenstockError as error:
        running.stop()
        pytest.skip(f"there is no Kafka broker: {error}")
    yield running
    running.stop()


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


@pytest.fixture(scope="session")
def s3_server():
    """MinIO on loopback, one for all tests; clients find it by the environment."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'penstock[stores]'")
    from penstock.core.errors import PenstockError
    from penstock.testing.s3 import LocalS3

    running = LocalS3()
    try:
        running.start()
    except PenstockError as error:
        running.stop()
        pytest.skip(f"there is no S3 server: {error}")
    os.environ.update(running.environment)
    yield running
    running.stop()


@pytest.fixture
def s3(s3_server):
    """An address in the S3 server that nobody else uses."""
    return f"{s3_server.address}/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def google(monkeypatch):
    """An address in a server that speaks as Google Cloud Storage does, found by the environment."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'penstock[stores]'")
    from gcs_server import GcsServer
    from penstock.core import stores

    with GcsServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        stores._store.cache_clear()
        stores._swapping.clear()
        yield f"{server.bucket}/{uuid.uuid4().hex[:8]}"
        stores._store.cache_clear()
