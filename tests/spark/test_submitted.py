"""Programs under ``spark-submit``: its master, name, options and interpreter are those of the session."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from penstock.spark.java import find_java
from penstock.spark.submitted import options_in, workers_interpreter
from waiting import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


def test_options_are_found_among_the_arguments():
    found = options_in(
        "--name mine --master 'spark://h:7077' -c a.b='x y' --conf c=d=e job.py --master other"
    )
    assert found["spark.app.name"] == "mine"
    assert (found["a.b"], found["c"]) == ("x y", "d=e")
    assert options_in("") == options_in("pyspark-shell") == {}


def test_an_interpreter_that_is_named_is_kept_and_ours_is_not_left_behind(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "./env/bin/python")
    with workers_interpreter():
        assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    with workers_interpreter():
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert "PYSPARK_PYTHON" not in os.environ


def submit(script, cluster, *arguments, **environment):
    home = Path(pyspark.__file__).parent
    options = {**cluster.session_config(), "spark.sql.shuffle.partitions": "7"}
    words = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
    command = [home / "bin" / "spark-submit", "--master", cluster.master, "--name", "submitted", *words]
    java = {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [*map(str, command), str(script), *map(str, arguments)],
        env={**os.environ, **java, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.cluster
@pytest.mark.long
def test_a_session_takes_what_spark_submit_was_given(cluster, tmp_path):
    script, python = tmp_path / "told.py", tmp_path / "python"
    script.write_text(
        "import os\n"
        "import penstock.spark\n"
        "spark = penstock.spark.session()\n"
        "context = spark.sparkContext\n"
        "chosen = context.parallelize([0], 1).map(lambda _: os.environ.get('CHOSEN')).collect()\n"
        "print(context.master, context.appName, spark.conf.get('spark.sql.shuffle.partitions'), *chosen)\n"
    )
    python.write_text(f'#!/bin/sh\nCHOSEN=by-hand exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ran = submit(script, cluster, PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=sys.executable)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.splitlines()[-1].split() == [cluster.master, "submitted", "7", "by-hand"]


@pytest.mark.cluster
@pytest.mark.long
def test_the_job_of_the_page_runs_on_the_cluster_that_spark_submit_names(cluster, tmp_path):
    (job,) = re.findall(r"```python\n(# job\.py.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "job.py").write_text(job)
    before = set(cluster.folder.glob("work-*/app-*"))
    ran = submit(tmp_path / "job.py", cluster, tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert set(cluster.folder.glob("work-*/app-*")) - before, "its executors were those of the cluster"
    ends = pq.read_table(tmp_path / "out")["window_end"].unique()
    assert len(ends) > 10
