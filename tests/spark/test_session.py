"""The one place that builds a Spark session."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.spark
from penstock.core.errors import PenstockError
from penstock.spark.java import find_java
from waiting import PATIENCE, until

pytestmark = pytest.mark.spark


def test_a_session_that_is_there_is_taken(spark):
    assert penstock.spark.session() is spark
    assert penstock.spark.session(existing=spark) is spark


def test_workers_run_the_drivers_interpreter(spark):
    def interpreter(batches):
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"python": [sys.executable]})

    rows = spark.range(1).mapInArrow(interpreter, "python string").collect()
    assert rows[0].python == sys.executable


def test_local_mode_is_bound_to_loopback_and_quiet(spark):
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_penstocks_sources_are_known(spark):
    frame = spark.read.format("penstock-traffic").options(rate="100", seconds="1", seed="1").load()
    assert frame.count() > 50


def says_version(place, version, home=""):
    """A program that answers like a Java."""
    place.parent.mkdir(parents=True, exist_ok=True)
    settings = f"    java.home = {home}\n" if home else ""
    place.write_text(
        f"#!/bin/sh\ncat >&2 <<'END'\nProperty settings:\n{settings}openjdk version \"{version}\"\nEND\n"
    )
    place.chmod(0o755)


def test_an_early_access_java_has_a_version_too(monkeypatch, tmp_path):
    says_version(tmp_path / "bin" / "java", "25-ea")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert (find_java().version, find_java().major) == ("25-ea", 25)


def test_of_a_script_on_the_path_the_home_of_the_java_behind_it_is_taken(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{os.environ['PATH']}")
    says_version(tmp_path / "jdk" / "bin" / "java", "17.0.15")
    says_version(tmp_path / "shims" / "java", "17.0.15", tmp_path / "jdk")
    assert find_java().home == tmp_path / "jdk"
    says_version(tmp_path / "shims" / "java", "17.0.15")
    monkeypatch.setattr(Path, "glob", lambda *_: [])
    with pytest.raises(PenstockError, match="none was found"):  # a folder without bin/java is no home
        find_java()


def test_java_that_is_too_old_or_missing_gets_one_sentence(monkeypatch, tmp_path):
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(Path, "glob", lambda *_: [])
    with pytest.raises(PenstockError, match=r"Java 17 or newer but found 11\.0\.2"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(PenstockError, match="none was found"):
        find_java()


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_stays_behind(number):
    code = (
        "import time, penstock.spark as s\n"
        "with s.running(s.session('local[1]')) as spark:\n"
        "    print(spark.range(3).mapInArrow(lambda b: b, 'id long').count(), flush=True)\n"
        "    time.sleep(900)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout.readline().strip() == "3"
    assert len(group(child.pid)) > 1
    os.kill(child.pid, number)
    child.wait(PATIENCE)
    until(lambda: not group(child.pid), "the end of every process")


@pytest.mark.long
@pytest.mark.kill
def test_ctrl_c_in_the_midst_of_a_call_into_java_leaves_no_trace_on_the_terminal():
    code = (
        "import sys, threading, time, traceback\n"
        "import penstock.spark as s\n"
        "def tell():\n"
        "    main = threading.main_thread().ident\n"
        "    while 'send_command' not in [f.name for f in traceback.extract_stack(sys._current_frames()[main])]:\n"
        "        time.sleep(0.01)\n"
        "    print('ready', flush=True)\n"
        "with s.running(s.session('local[1]')) as spark:\n"
        "    sleep = spark.sparkContext._jvm.java.lang.Thread.sleep\n"
        "    threading.Thread(target=tell, daemon=True).start()\n"
        "    try:\n"
        "        sleep(900000)\n"
        "    except KeyboardInterrupt:\n"
        "        print('ended', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline().strip() == "ready"
    child.send_signal(signal.SIGINT)
    told, errors = child.communicate(timeout=PATIENCE)
    assert told.strip() == "ended"
    assert "Traceback" not in errors


def group(pid: int) -> list[int]:
    """Processes of a session, by its leader."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found
