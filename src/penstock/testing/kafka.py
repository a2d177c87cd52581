"""A real Kafka broker on loopback, for tests and benchmarks: Apache Kafka itself, one process, no ZooKeeper.

Its jars come from Maven Central at the first use and stay in the user's cache folder.
"""

import socket
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from penstock.spark.java import find_java
from penstock.spark.maven import fetched
from penstock.testing.processes import LocalServer, free_ports

VERSION = "4.3.1"

_CONFIG = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{locked},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
log.dirs={folder}/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=0
log.initial.task.delay.ms=1000
"""


class LocalBroker(LocalServer):
    """Apache Kafka on 127.0.0.1, started on entering and ended on leaving.

    ``servers`` is its address; ``locked`` one where only a user with a password is let in (``credentials``). After
    :meth:`kill` and :meth:`start` it is the same broker with the same messages.

    Example
    -------
    ::

        with LocalBroker() as broker:
            broker.create("trips", partitions=4)
    """

    kind = "Kafka broker"

    def __init__(self, *, wait: float = 120.0) -> None:
        super().__init__(wait)
        self.servers = self.locked = ""

    @property
    def credentials(self) -> dict[str, str]:
        """Settings of a client that may use the ``locked`` address."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "tester",
            "sasl.password": self._password,
        }

    def start(self) -> Self:
        """Start the broker and wait until it answers."""
        jars = fetched(f"kafka-{VERSION}", [f"org.apache.kafka:kafka_2.13:{VERSION}"])
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
            self._write_config(self._folder)
        command = [
            str(find_java().home / "bin" / "java"),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars}/*",
            "kafka.Kafka",
            str(self._folder / "server.properties"),
        ]
        self._launch(self._folder, command)
        self._await()
        return self

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Make a topic; gives its name."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()  # has to live until the answer is there
        admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result(
            self._wait
        )
        return topic

    def admin(self) -> Any:
        """A client to change topics with."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _write_config(self, folder: Path) -> None:
        """Settings, and a formatted data folder: Kafka's own tool for that is a second JVM to wait for."""
        port, locked, controller = free_ports(3)
        self.servers, self.locked = f"127.0.0.1:{port}", f"127.0.0.1:{locked}"
        text = _CONFIG.format(
            port=port,
            locked=locked,
            controller=controller,
            folder=folder,
            user="tester",
            password=self._password,
        )
        (folder / "server.properties").write_text(text)
        (folder / "data").mkdir()
        ids = {"cluster.id": _kafka_id(), "directory.id": _kafka_id(), "node.id": 1, "version": 1}
        (folder / "data" / "meta.properties").write_text("".join(f"{k}={v}\n" for k, v in ids.items()))

    def _answers(self) -> bool:
        host, _, port = self.servers.partition(":")
        with socket.create_connection((host, int(port)), 1):
            return True


def _kafka_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
