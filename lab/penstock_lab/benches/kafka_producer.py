"""A producer in a process of its own: ``python -m penstock_lab.benches.kafka_producer SERVERS TOPIC KIND RATE SECONDS PARTITIONS SPOILT``.

It prints how many messages it sent. Times are those of sending; the other fields are drawn beforehand. Of SPOILT messages one is a
minute late and one cannot be parsed; 0: none.
"""

import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np

from penstock.spark.kafka.client import confluent

DIMS = 8
POOL = 200_000
#: Seconds between two bursts of messages.
STEP = 0.02
#: How old the time of a late message is.
LATE = timedelta(minutes=1)


def main(servers: str, topic: str, kind: str, rate: str, seconds: str, partitions: str, spoilt: str) -> None:
    """Send at a rate, for some seconds."""
    producer = confluent().Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
    )
    bodies, parts, every = _bodies(kind), int(partitions), int(spoilt)
    total, sent, started = int(float(rate) * float(seconds)), 0, time.time()
    while sent < total:
        due = min(total, int((time.time() - started + STEP) * float(rate)))
        now = datetime.now(UTC)
        head, late = _head(now), _head(now - LATE)
        for number in range(sent, due):
            body, part = bodies[number % POOL], number % parts
            if not every or number % every > 1:
                producer.produce(topic, head + body, partition=part)
            else:
                value = late + body if number % every else b"no JSON, number %d" % number
                producer.produce(topic, value, partition=part)
        sent = due
        producer.poll(0)
        time.sleep(max(0.0, STEP - (time.time() - started) % STEP))
    producer.flush(60)
    sys.stdout.write(f"{sent} {time.time() - started:.3f}\n")


def _head(moment: datetime) -> bytes:
    text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f'{{"at":"{text}",'.encode()


def _bodies(kind: str) -> list[bytes]:
    rng = np.random.default_rng(1)
    if kind == "words":
        return [f'"word":"w{n}"}}'.encode() for n in rng.zipf(1.3, POOL) % 20_000]
    rows = rng.random((POOL, DIMS)).round(6)
    return [(",".join(f'"a{i}":{v}' for i, v in enumerate(row)) + "}").encode() for row in rows.tolist()]


if __name__ == "__main__":
    main(*sys.argv[1:])
