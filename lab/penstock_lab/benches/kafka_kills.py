"""Drivers, brokers and connections killed at random instants, while readers of committed messages compare everything."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.testing.kafka import LocalBroker
from penstock_lab.benches.kafka_runs import Setting, committed, driver, producer, specified
from penstock_lab.benches.query_kills import commits_anew
from penstock_lab.results import ResultsPage, Table, announce

#: Batches that the rows are taken in.
BATCHES = 80


def query_kills(report: ResultsPage, setting: Setting) -> None:
    """A skyline query from topic to topic."""

    def answers(spec: dict[str, Any]) -> dict[str, Counter[Any]]:
        return {"messages": committed(setting.broker, spec["answers"])}

    _compared(report, setting, "skyline", "points", "the skyline query", answers)


def flow_kills(report: ResultsPage, setting: Setting) -> None:
    """Word counts from a topic to a topic and a Delta table."""

    def answers(spec: dict[str, Any]) -> dict[str, Counter[Any]]:
        from deltalake import DeltaTable

        messages = Counter[Any]()
        for value, times in committed(setting.broker, spec["answers"]).items():
            row = json.loads(value)
            messages[row["word"], row["n"]] += times
        rows = DeltaTable(f"{spec['work']}/table").to_pyarrow_table(columns=["word", "n"])
        table = Counter[Any](zip(rows["word"].to_pylist(), rows["n"].to_pylist(), strict=True))
        return {"messages": messages, "rows of the table": table}

    _compared(report, setting, "words", "words", "word count", answers)


def _compared(report: ResultsPage, setting: Setting, kind: str, sent: str, label: str, answers: Any) -> None:
    rows = setting.sizes.rows_to_kill_on
    calm = specified(setting, "calm", kind, start="earliest", drain=True, most=rows // BATCHES)
    with producer(calm, sent, rows / 10, 10) as process:
        process.wait()
    announce("an undisturbed run")
    driver(calm).wait()
    killed = {
        **calm,
        "answers": setting.broker.create("answers-killed", 2),
        "work": str(setting.scratch / "killed"),
    }
    made = _killed(killed, setting)
    first, second = answers(calm), answers(killed)
    columns = ("what", "kills of", "compared", "undisturbed", "after the kills", "missing", "too many")
    whom = ", ".join(f"{who} {times}" for who, times in sorted(made.items()))
    lines = [
        (label, whom, what, first[what].total(), second[what].total(), missing.total(), extra.total())
        for what in first
        for missing, extra in [(first[what] - second[what], second[what] - first[what])]
    ]
    note = "Killed while batches were read, computed, committed or sent; a connection is reset on both sides by the kernel (ss -K)."
    report.tables.append(Table(f"Kills, {label}", columns, lines, note))
    same = first == second and all(found.total() for found in first.values())
    report.claim(
        f"{label}: after {made.total()} kills readers see what an undisturbed run gives",
        "equal",
        "equal" if same else "differs",
        same and made.total() >= 2 * setting.sizes.lives,
    )


def _killed(spec: dict[str, Any], setting: Setting) -> Counter[str]:
    """Two kills in each life of a driver: of the broker or its connections, then of the driver itself."""
    draw, made = random.Random(5), Counter[str]()
    commits = Path(spec["work"]) / "ck" / "penstock" / "commits"
    for life in range(setting.sizes.lives):
        process = driver(spec)
        if not commits_anew(process, commits):
            break  # the topic was used up before the last kill
        time.sleep(draw.uniform(0.0, 1.0))
        made[_disturbed(setting.broker, draw, whole=life % 2 == 0)] += 1
        time.sleep(draw.uniform(0.0, 3.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        made["driver"] += 1
        announce(f"kills so far: {dict(made)}")
    driver(spec).wait()
    return made


def _disturbed(broker: LocalBroker, draw: random.Random, whole: bool) -> str:
    """Kill the broker and start it again, or reset all connections to it; says which."""
    if not whole and _reset(broker.servers.rpartition(":")[2]):
        return "connections"
    broker.kill()
    time.sleep(draw.uniform(0.0, 2.0))
    broker.start()
    return "broker"


def _reset(port: str) -> bool:
    """Reset all connections to a port of this machine; False where the kernel or our rights do not allow it."""
    call = ["ss", "--kill", "--tcp", "--no-header", "dport", "=", f":{port}"]
    try:
        ran = subprocess.run(call, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return ran.returncode == 0 and bool(ran.stdout.strip())
