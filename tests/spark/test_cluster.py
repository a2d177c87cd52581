"""A standalone cluster on loopback: it works, it scales, and it leaves no process behind."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.actuators.processes import started_at, tree
from penstock.spark.cluster import Host, LocalCluster
from waiting import PATIENCE, until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SCALE = """
    import json, sys, time
    import penstock.spark
    from penstock.spark.actuators.executor_probe import reach
    from penstock.spark.actuators.executors import Executors
    from penstock.spark.actuators.local_executors import local_pids
    from penstock.spark.cluster import LocalCluster

    config = LocalCluster().session_config(executor_memory="512m")
    spark = penstock.spark.session(sys.argv[1], config=config)
    with penstock.spark.running(spark):
        executors = Executors(spark)
        counts = []
        for count in (1, 3, 2):
            reach(executors, count, 600)
            total = spark.sparkContext.parallelize(range(1000), 8).map(lambda x: x * 2).sum()
            counts.append([executors.planned, executors.requested, executors.observed, total])
        print(json.dumps({"counts": counts, "pids": sorted(local_pids(spark.sparkContext.applicationId).values())}))
"""


def alive(pids):
    return [pid for pid in pids if started_at(pid) is not None]


def test_executors_are_added_and_removed_and_none_is_left(drive):
    child = drive(SCALE)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    told = json.loads(out.splitlines()[-1])
    assert told["counts"] == [[1, 1, 1, 999000], [3, 3, 3, 999000], [2, 2, 2, 999000]]
    assert len(told["pids"]) >= 2
    until(lambda: not alive(told["pids"]), "the end of every executor")


#: Where the workers of each executor keep copies of state, while the driver has a folder of its own.
FOLDERS = """
    import os, sys, time
    import penstock.spark
    from penstock.spark.cluster import LocalCluster
    from penstock.spark.runtime.starting import hand_on_store_settings

    def folder(_):
        time.sleep(1)  # both executors are to have a share
        return os.environ.get("PENSTOCK_STATE_CACHE")

    os.environ["PENSTOCK_STATE_CACHE"] = "/the/driver's"
    spark = penstock.spark.session(sys.argv[1], config=LocalCluster().session_config())
    with penstock.spark.running(spark):
        hand_on_store_settings(spark)
        found = set()
        while len(found) < 2:
            found |= set(spark.sparkContext.parallelize(range(2), 2).map(folder).collect())
        print(sorted(found))
"""


def test_each_host_keeps_copies_of_state_where_its_own_environment_says(tmp_path):
    hosts = [Host(), *(Host(environment={"PENSTOCK_STATE_CACHE": f"/host/{n}"}) for n in (1, 2))]
    with LocalCluster(workers=2, cores=1, memory="1g", hosts=hosts) as cluster:
        script = tmp_path / "driver.py"
        script.write_text(textwrap.dedent(FOLDERS))
        command = [sys.executable, str(script), cluster.master]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.splitlines()[-1] == "['/host/1', '/host/2']"


#: Asks the master who it is: with the secret, without one, and with another one.
KNOCK = """
    import json, os, sys
    import penstock.spark
    from penstock.spark.actuators.processes import command_line, pids
    from penstock.spark.cluster import LocalCluster

    spark = penstock.spark.session(sys.argv[1], config=LocalCluster().session_config())
    port = int(sys.argv[1].rpartition(":")[2])
    apache = spark.sparkContext._jvm.org.apache.spark

    def knock(**options):
        conf = apache.SparkConf(False).set("spark.network.timeout", "60s").set("spark.rpc.numRetries", "1")
        for name, value in options.items():
            conf.set("spark." + name.replace("_", "."), value)
        key, file = (getattr(apache.SecurityManager, f"$lessinit$greater$default${n}")() for n in (2, 3))
        guard = apache.SecurityManager(conf, key, file)
        rpc = apache.rpc.RpcEnv.create("knock", "127.0.0.1", "127.0.0.1", 0, conf, guard, 1, True)
        try:
            rpc.setupEndpointRef(apache.rpc.RpcAddress("127.0.0.1", port), "Master")
            return "let in"
        except Exception as error:
            return "refused"
        finally:
            rpc.shutdown()

    with penstock.spark.running(spark):
        rows = spark.range(100).count()
        shown = [pid for pid in pids() if os.environ["_SPARK_AUTH_SECRET"] in " ".join(command_line(pid))]
        print(json.dumps({"rows": rows, "shown": shown, "known": knock(authenticate="true"), "unknown": knock()}), flush=True)
"""


def test_an_application_without_the_secret_is_refused_and_the_secret_is_on_no_command_line(drive):
    child = drive(KNOCK)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == {
        "rows": 100,
        "shown": [],
        "known": "let in",
        "unknown": "refused",
    }


def listening(pids):
    """Addresses on which these processes listen, as (address in hex, port)."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(link))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, _, port = fields[1].partition(":")
                found.add((address, int(port, 16)))
    return found


def test_only_loopback_is_listened_on_and_nothing_can_be_submitted_over_http(cluster):
    found = listening(cluster.pids)
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert {address for address, _ in found} <= loopback
    assert len(listening(cluster.pids[:1])) == 2, (
        "the master has its port and its page, and no server for submissions"
    )
    assert "REST" not in (cluster.folder / "master.log").read_text()


def test_stopping_ends_every_process_and_removes_the_folder():
    cluster = LocalCluster(workers=1)
    with cluster:
        pids, folder = cluster.pids, cluster.folder
        assert len(alive(pids)) == 2
        assert cluster.master.startswith("spark://127.0.0.1:")
        assert folder.exists()
    assert not alive(pids)
    assert not folder.exists()


@pytest.mark.kill
def test_a_cluster_ends_with_its_owner_even_if_that_is_killed():
    code = """
        import time
        from penstock.spark.cluster import LocalCluster
        with LocalCluster(workers=1) as cluster:
            print("up", flush=True)
            time.sleep(900)
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "up\n"
    family = tree(owner.pid)
    assert len(family) >= 3
    owner.kill()
    owner.wait()
    until(lambda: not alive(family), "the end of every process")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"workers": 0}, "at least 1"), ({"cores": 0}, "at least 1"), ({"memory": "lots"}, "no memory size")],
)
def test_impossible_clusters_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(PenstockError, match=words):
        LocalCluster(**arguments)


def test_a_cluster_that_is_not_running_has_no_folder():
    with pytest.raises(PenstockError, match="not running"):
        LocalCluster().folder


def test_local_mode_is_refused_in_one_sentence(spark):
    from penstock.spark.actuators.executor_probe import probe
    from penstock.spark.actuators.executors import Executors

    with pytest.raises(PenstockError, match="local mode"):
        Executors(spark)
    assert not probe(spark).works
