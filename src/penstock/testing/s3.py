"""A real S3 server on loopback, for tests and benchmarks: MinIO, built once by Go from its public module.

``make minio`` builds it into the user's cache folder (some minutes); one on the path is taken as it is.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from penstock.core.errors import PenstockError
from penstock.spark.maven import cache_folder
from penstock.testing.processes import LocalServer, free_ports

MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
BUCKET = "penstock"


def found_server() -> Path:
    """The server's program, or one sentence on how to get it."""
    built = cache_folder() / "bin" / "minio"
    on_path = shutil.which("minio")
    if on_path:
        return Path(on_path)
    if not built.exists():
        raise PenstockError(
            "There is no MinIO on this machine; make minio builds it (with Go, some minutes)."
        )
    return built


def build_server() -> Path:
    """Build the server, unless it is there."""
    with contextlib.suppress(PenstockError):
        return found_server()
    go = shutil.which("go")
    if go is None:
        raise PenstockError(
            "MinIO is built with Go, and there is none on the path; install Go, or minio itself."
        )
    folder = cache_folder() / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    ran = subprocess.run(
        [go, "install", MODULE],
        env={**os.environ, "GOBIN": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise PenstockError(f"MinIO could not be built ({(ran.stderr.strip().splitlines() or ['?'])[-1]}).")
    return found_server()


class LocalS3(LocalServer):
    """MinIO on this machine, started on entering and ended on leaving, with one bucket.

    ``environment`` is what a client needs. After :meth:`kill` and :meth:`start` it is the same server with the same objects.

    Example
    -------
    ::

        with LocalS3() as server:
            os.environ.update(server.environment)
            query.start(stream, output=f"{server.address}/out", checkpoint=f"{server.address}/ck")
    """

    kind = "S3 server"

    def __init__(self, *, host: str = "127.0.0.1", wait: float = 120.0) -> None:
        super().__init__(wait)
        self._host, self._port = host, 0

    @property
    def address(self) -> str:
        """The bucket."""
        return f"s3://{BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        """Where the server is and who may use it, as clients of S3 look for it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self._host}:{self._port}",
            "AWS_ACCESS_KEY_ID": "penstock",
            "AWS_SECRET_ACCESS_KEY": self._password,
            "AWS_REGION": "us-east-1",
        }

    def start(self, prefix: tuple[str, ...] = ()) -> Self:
        """Start the server and wait until it answers; ``prefix`` is a command that starts it elsewhere."""
        program = found_server()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="penstock-s3-"))
            (self._folder / "data" / BUCKET).mkdir(parents=True)
            self._port, self._console = free_ports(2)
        command = [*prefix, str(program), "server", "--quiet", "--address", f"{self._host}:{self._port}"]
        command += ["--console-address", f"{self._host}:{self._console}", str(self._folder / "data")]
        own = {"MINIO_ROOT_USER": "penstock", "MINIO_ROOT_PASSWORD": self._password, "MINIO_BROWSER": "off"}
        own |= {"HOME": str(self._folder), "MINIO_UPDATE": "off"}
        self._launch(self._folder, command, {**os.environ, **own})
        if not prefix:
            self._await()
        return self

    def _answers(self) -> bool:
        return b" 200 " in _answer(self._host, self._port, "/minio/health/ready")


def _answer(host: str, port: int, path: str) -> bytes:
    with socket.create_connection((host, port), 1) as line:
        line.settimeout(5)
        line.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return line.recv(100)


if __name__ == "__main__":
    build_server()
