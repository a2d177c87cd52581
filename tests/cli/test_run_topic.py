"""``penstock run APP --input kafka://...`` as a command, on a real broker."""

import subprocess
import sys

from waiting import PATIENCE


def test_a_broker_or_topic_that_is_not_there_is_told_in_one_sentence(broker):
    for place, sentence in (
        ("kafka://127.0.0.1:9/log", "No Kafka broker answers at '127.0.0.1:9'"),
        (f"kafka://{broker.servers}/nowhere", "has no topic 'nowhere'"),
    ):
        call = [sys.executable, "-m", "penstock", "run", "wordcount", "--seconds", "1", "--input", place]
        ended = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert ended.returncode == 2, ended.stderr[-2000:]
        assert sentence in " ".join(ended.stderr.split())
        assert "Traceback" not in ended.stderr
