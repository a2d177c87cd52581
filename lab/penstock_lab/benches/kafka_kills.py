"""Drivers, brokers and connections killed at random instants, while a reader of committed messages counts everything."""

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
from penstock_lab.benches.kafka_readers import ANSWERS, Follower, committed
from penstock_lab.benches.kafka_runs import Setting, driver, producer, specified
from penstock_lab.benches.query_kills import commits_anew
from penstock_lab.results import ResultsPage, Table, announce

#: Batches that the rows are taken in, for each life of a driver: more than one can take before it is killed.
BATCHES = 60
#: Of so many messages one is late and one cannot be parsed.
SPOILT = 500
#: Kind of a driver -> what it runs, in words.
LABELS = {"skyline": "the skyline query", "each word": "word count"}
#: Role -> what its topic holds, in words.
ROLES = {"answers": "messages", "late": "late rows", "dead": "dead letters"}


def query_kills(report: ResultsPage, setting: Setting) -> None:
    """A skyline query from topic to topics: answers, late rows, dead letters."""

    def answers(spec: dict[str, Any]) -> dict[str, Counter[Any]]:
        return {words: committed(setting.broker, spec[role]) for role, words in ROLES.items()}

    _compared(report, setting, "skyline", "points", tuple(ROLES), answers)


def flow_kills(report: ResultsPage, setting: Setting) -> None:
    """Word counts from a topic to a topic and a Delta table, dead letters to another topic."""

    def answers(spec: dict[str, Any]) -> dict[str, Counter[Any]]:
        from deltalake import DeltaTable

        messages = Counter[Any]()
        for value, times in committed(setting.broker, spec["answers"]).items():
            row = json.loads(value)
            messages[row["word"], row["n"]] += times
        rows = DeltaTable(f"{spec['work']}/table").to_pyarrow_table(columns=["word", "n"])
        table = Counter[Any](zip(rows["word"].to_pylist(), rows["n"].to_pylist(), strict=True))
        dead = committed(setting.broker, spec["dead"])
        return {"messages": messages, "rows of the table": table, "dead letters": dead}

    _compared(report, setting, "each word", "words", ("answers", "dead"), answers)


def _compared(
    report: ResultsPage, setting: Setting, kind: str, sent: str, roles: tuple[str, ...], answers: Any
) -> None:
    rows, batches = setting.sizes.rows_to_kill_on, BATCHES * setting.sizes.lives
    calm = specified(
        setting, "calm", kind, start="earliest", drain=True, most=rows // batches, trigger="250 milliseconds"
    )
    calm |= _topics(setting, "calm", roles)
    with producer(calm, sent, rows / 10, 10, SPOILT) as process:
        process.wait()
    announce("an undisturbed run")
    driver(calm).wait()
    killed = {**calm, **_topics(setting, "killed", roles), "work": str(setting.scratch / "killed")}
    follower = Follower(setting.broker.servers, [killed[role] for role in roles])
    follower.start()
    made = _killed(killed, setting)
    announce("compared")
    same = follower.agrees({killed[role]: committed(setting.broker, killed[role]) for role in roles})
    _judge(report, setting, LABELS[kind], made, (answers(calm), answers(killed)), same)


def _topics(setting: Setting, run: str, roles: tuple[str, ...]) -> dict[str, str]:
    return {role: setting.broker.create(f"{role}-of-{run}", ANSWERS) for role in roles}


def _judge(
    report: ResultsPage,
    setting: Setting,
    label: str,
    made: Counter[str],
    found: tuple[dict[str, Counter[Any]], dict[str, Counter[Any]]],
    followed: bool,
) -> None:
    first, second = found
    columns = ("what", "kills of", "compared", "undisturbed", "after the kills", "missing", "too many")
    whom = ", ".join(f"{who} {times}" for who, times in sorted(made.items()))
    lines = [
        (label, whom, what, first[what].total(), second[what].total(), missing.total(), extra.total())
        for what in first
        for missing, extra in [(first[what] - second[what], second[what] - first[what])]
    ]
    report.tables.append(Table(f"Kills, {label}", columns, lines, _note(made)))
    same = first == second and all(each.total() for each in first.values())
    report.claim(
        f"{label}: after {made.total()} kills readers see what an undisturbed run gives, {', '.join(first)}",
        "equal",
        "equal" if same else "differs",
        same,
    )
    report.claim(
        f"{label}: a reader who read all the while counted what one counts who comes afterwards",
        "equal",
        "equal" if followed else "differs",
        followed,
    )
    kills = 2 * setting.sizes.lives
    report.claim(f"{label}: kills", str(kills), str(made.total()), made.total() == kills)


def _note(made: Counter[str]) -> str:
    note = (
        f"Of {SPOILT} messages one is a minute late and one cannot be parsed. The driver, with all it has started, and the broker are killed "
        "(SIGKILL) while batches are read, computed, committed or sent."
    )
    if made["connections"]:
        return note + " Connections are reset on both sides by the kernel (ss -K)."
    return note + " Connections could not be reset here (ss -K): the broker was killed instead."


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
