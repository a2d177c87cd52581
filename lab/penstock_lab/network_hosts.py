"""Several hosts on one machine, for tests of what crosses a network: network namespaces on a bridge of their own.

Each has an address and no way to anywhere else. It takes root and Linux; where that is not given, one sentence says so.
"""

import json
import os
import shutil
import subprocess

from penstock.core.errors import PenstockError
from penstock.spark.cluster import Host


class Hosts:
    """So many hosts, made on entering and removed on leaving.

    Example
    -------
    ::

        with Hosts(3) as hosts:
            subprocess.run([*hosts[0].prefix, "ping", "-c1", hosts[1].address])
            hosts.cut(2)
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._word = f"ps{os.getpid() % 100_000}"
        self._net = f"10.231.{os.getpid() % 250}"
        self._cut: set[int] = set()

    def __getitem__(self, number: int) -> Host:
        return Host(f"{self._net}.{number + 1}", ("ip", "netns", "exec", f"{self._word}-{number}"))

    def __enter__(self) -> "Hosts":
        if shutil.which("ip") is None:
            raise PenstockError("Network namespaces need the command ip (iproute2), and it is not there.")
        try:
            _ip(f"link add {self._word} type bridge")
            _ip(f"link set {self._word} up")
            for number in range(self._count):
                self._make(number)
        except PenstockError:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def cut(self, number: int) -> None:
        """Take a host off the network; its processes go on and notice nothing but silence."""
        _ip(f"link set {self._word}v{number} down")

    def heal(self, number: int) -> None:
        """Bring it back."""
        _ip(f"link set {self._word}v{number} up")

    def sent(self, number: int) -> int:
        """Bytes that a host has sent to the others so far."""
        told = json.loads(_ip(f"-s -j link show dev {self._word}v{number}"))
        return int(told[0]["stats64"]["rx"]["bytes"])  # the bridge's end receives what the host sends

    def _make(self, number: int) -> None:
        name, inside, outside = f"{self._word}-{number}", f"{self._word}n{number}", f"{self._word}v{number}"
        _ip(f"netns add {name}")
        _ip(f"link add {outside} type veth peer name {inside}")
        _ip(f"link set {inside} netns {name}")
        _ip(f"link set {outside} master {self._word} up")
        _ip(f"-n {name} addr add {self[number].address}/24 dev {inside}")
        for device in (inside, "lo"):
            _ip(f"-n {name} link set {device} up")

    def _remove(self) -> None:
        for number in range(self._count):
            subprocess.run(["ip", "netns", "del", f"{self._word}-{number}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._word], capture_output=True, check=False)


def _ip(arguments: str) -> str:
    ran = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True, check=False)
    if ran.returncode:
        reason = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PenstockError(f"Network namespaces cannot be made here ({reason}); that takes root and Linux.")
    return ran.stdout
