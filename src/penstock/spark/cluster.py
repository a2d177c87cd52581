"""A real standalone Spark cluster on loopback: master and workers as child processes of this one.

For tests, benchmarks and trying an autoscaler on one machine. Ports are free ones chosen by the system, nothing is
written outside one temporary folder, and the processes end with their owner even if it is killed.

Other users of the machine are kept out: everything is bound to loopback, Spark's server for submissions over HTTP is
off, its pages cannot end anything, and only applications that know a random secret are let in. The secret is in the
environment of this process, where master, workers, sessions and child processes find it, and on no command line.
"""

import contextlib
import ctypes
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.errors import PenstockError, TimedOutError
from penstock.spark.java import find_java

_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""


#: Where Spark looks for the secret before it looks into its options; its workers hand it to executors the same way.
_SECRET = "_SPARK_AUTH_SECRET"


def credentials() -> dict[str, str]:
    """Options of an application that may use the clusters of this process; none where there was no cluster yet."""
    # Spark wants the option to be there, and reads the secret itself from the environment first.
    known = {"spark.authenticate": "true", "spark.authenticate.secret": f"${{env:{_SECRET}}}"}
    return known if _SECRET in os.environ else {}


@dataclass(frozen=True)
class Host:
    """Where a process of the cluster runs: an address of its own, and the command that starts programs there."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    #: Variables of this host alone, such as a folder of its own.
    environment: Mapping[str, str] = field(default_factory=dict)


class LocalCluster:
    """A standalone master with workers on 127.0.0.1, started on entering and ended on leaving.

    Parameters
    ----------
    workers
        How many worker processes.
    cores
        Cores that each worker offers; they are a count of slots, so more than the machine has is allowed.
    memory
        Memory that each worker offers, in Spark's spelling.
    wait
        Seconds until all workers must have registered.
    hosts
        Where the master and then each of the workers run, where that is not loopback (network namespaces).

    Example
    -------
    ::

        with LocalCluster(workers=2, cores=1, memory="1g") as cluster:
            spark = penstock.spark.session(cluster.master, config=cluster.session_config())
    """

    def __init__(
        self,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        *,
        wait: float = 60.0,
        hosts: Sequence[Host] = (),
    ) -> None:
        if workers < 1 or cores < 1:
            raise PenstockError(
                f"A cluster needs workers and cores of at least 1, not {workers} and {cores}."
            )
        if not re.fullmatch(r"\d+[mg]", memory):
            raise PenstockError(f"'{memory}' is no memory size; write it like 512m or 1g.")
        self.workers, self.cores, self.memory = workers, cores, memory
        self._wait = wait
        self._hosts = [*hosts, *[Host()] * (workers + 1 - len(hosts))]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: Path | None = None
        self.master = ""

    @property
    def pids(self) -> list[int]:
        """The master's process id, then the workers'."""
        return [process.pid for process in self._processes]

    @property
    def folder(self) -> Path:
        """Logs of master and workers, and the work folders of executors."""
        if self._folder is None:
            raise PenstockError("The cluster is not running; use it in a with statement.")
        return self._folder

    def session_config(self, executor_memory: str = "512m", executor_cores: int = 1) -> dict[str, str]:
        """Options for ``penstock.spark.session(cluster.master, config=...)``: small executors, removed gracefully.

        The secret is not among them: options end up on a command line, which every user can read.
        """
        return {
            **credentials(),
            "spark.executor.memory": executor_memory,
            "spark.executor.cores": str(executor_cores),
            "spark.driver.memory": "1g",
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            "spark.storage.decommission.rddBlocks.enabled": "true",
            "spark.storage.decommission.shuffleBlocks.enabled": "true",
            # An executor looks for blocks to hand over every half minute and ends only after such a look.
            "spark.storage.decommission.replicationReattemptInterval": "1s",
            # The JVM of a small executor: one core's worth of collector and compiler threads.
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k",
        }

    def start(self) -> "LocalCluster":
        """Start master and workers and wait until all have registered."""
        os.environ.setdefault(_SECRET, secrets.token_hex(32))
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        (self._folder / "log4j2.properties").write_text(_LOG4J)
        try:
            give_up = time.monotonic() + self._wait
            log = self._spawn("master", self._hosts[0], "org.apache.spark.deploy.master.Master")
            self.master = self._await(log, r"Starting Spark master at (spark://\S+)", give_up)
            options = ["--cores", str(self.cores), "--memory", self.memory]
            for number in range(self.workers):
                work = ["--work-dir", str(self._folder / f"work-{number}")]
                host = self._hosts[number + 1]
                main = "org.apache.spark.deploy.worker.Worker"
                log = self._spawn(f"worker-{number}", host, main, *options, *work, self.master)
                self._await(log, r"Successfully registered with master (\S+)", give_up)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End workers, then the master, by their process ids, and remove the folder."""
        for process in reversed(self._processes):
            _end(process)
        self._processes.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> "LocalCluster":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self, name: str, host: Host, main: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        command = [
            *host.prefix,
            *_java_command(self.folder),
            main,
            "--host",
            host.address,
            "--port",
            "0",
            "--webui-port",
            "0",
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=_environment(host),
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._processes.append(process)
        return log

    def _await(self, log: Path, pattern: str, give_up: float) -> str:
        while time.monotonic() < give_up:
            if found := re.search(pattern, log.read_text(errors="replace")):
                return found.group(1)
            if self._processes[-1].poll() is not None:
                break
            time.sleep(0.05)
        last = (log.read_text(errors="replace").strip().splitlines() or ["it wrote nothing"])[-1]
        ended = self._processes[-1].poll() is not None
        what = "ended at its start" if ended else f"did not come up within {self._wait:.0f} s"
        raise (PenstockError if ended else TimedOutError)(f"The cluster's {log.stem} {what} ({last}).")


def _java_command(folder: Path) -> list[str]:
    """Java as Spark's own launcher would start its daemons, without the second JVM that the launcher needs."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    opens = ["lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent"]
    inside = [f"java.base/java.{name}=ALL-UNNAMED" for name in opens]
    inside += [
        f"java.base/{name}=ALL-UNNAMED" for name in ("sun.nio.ch", "sun.nio.cs", "sun.security.action")
    ]
    return [
        str(find_java().home / "bin" / "java"),
        *(f"--add-opens={target}" for target in inside),
        "-Xmx192m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "-Dspark.worker.cleanup.enabled=true",
        "-Dspark.authenticate=true",
        "-Dspark.master.rest.enabled=false",
        "-Dspark.ui.killEnabled=false",
        "-Dspark.master.ui.decommission.allow.mode=DENY",
        "-cp",
        f"{jars}/*",
    ]


def _environment(host: Host) -> dict[str, str]:
    import pyspark

    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": host.address,
        # Without it the worker looks for a source tree of Spark before it starts an executor.
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        **host.environment,
    }


def _die_with_parent() -> None:
    """Runs in the child: the kernel ends it when the thread that started it is gone, even by SIGKILL."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # 1 is PR_SET_PDEATHSIG


def _end(process: subprocess.Popen[bytes], patience: float = 10.0) -> None:
    """Ask a process to end, then insist; a worker ends its executors when asked."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
