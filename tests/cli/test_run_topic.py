"""``penstock run APP --input kafka://...`` as a command, on a topic of a real broker."""

import json
import signal
import subprocess
import sys

from kafka_topics import new_topic, send
from penstock.apps import wordcount
from penstock.spark.runtime.manifest import Manifest
from waiting import PATIENCE, until


def rows_taken(checkpoint):
    """Rows of all batches that are committed, as the checkpoint tells."""
    manifests = sorted((checkpoint / "penstock" / "commits").glob("*.json"))
    return Manifest.read(manifests[-1]).state["totals"]["rows"] if manifests else 0


def run_until(broker, topic, checkpoint, rows):
    """Start the command, end it by Ctrl-C once so many rows are committed; what it says at the end."""
    place = f"kafka://{broker.servers}/{topic}"
    words = ["--seconds", "0", "--json", "--input", place, "--checkpoint", str(checkpoint)]
    more = ["--show", "5000", "--master", "local[4]", "--trigger", "200 milliseconds"]
    call = [sys.executable, "-m", "penstock", "run", "wordcount", *words, *more]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: rows_taken(checkpoint) >= rows, f"{rows} rows", unless=lambda: child.poll() is not None)
        child.send_signal(signal.SIGINT)
        said, complaints = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, complaints
    return json.loads(said)


def test_an_application_counts_the_lines_of_a_topic_and_goes_on_after_an_interruption(broker, tmp_path):
    topic, lines = new_topic(broker, 3), wordcount.sentences(3000)
    send(broker, topic, [line.encode() for line in lines[:2000]], 3)
    first = run_until(broker, topic, tmp_path / "ck", 2000)
    assert first["rows"] == 2000
    assert {row["word"]: row["count"] for row in first["answer"]} == dict(wordcount.oracle(lines[:2000]))

    send(broker, topic, [line.encode() for line in lines[2000:]], 3)
    second = run_until(broker, topic, tmp_path / "ck", 3000)
    assert second["rows"] == 3000, "rows of the run before are not read again"
    again, whole = wordcount.oracle(lines[2000:]), wordcount.oracle(lines)
    answer = {row["word"]: row["count"] for row in second["answer"]}
    assert answer == {word: whole[word] for word in answer}
    assert set(again) <= set(answer)


def test_a_broker_or_topic_that_is_not_there_is_told_in_one_sentence(broker):
    for place, sentence in (
        ("kafka://127.0.0.1:9/log", "No Kafka broker answers at '127.0.0.1:9'"),
        (f"kafka://{broker.servers}/nowhere", "has no topic 'nowhere'"),
    ):
        call = [sys.executable, "-m", "penstock", "run", "wordcount", "--seconds", "1", "--input", place]
        ended = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert ended.returncode == 2
        assert sentence in " ".join(ended.stderr.split())
        assert "Traceback" not in ended.stderr
