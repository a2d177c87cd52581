"""Rates held and answer lags from a topic to a topic and to a Delta table, beside queries written by hand."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from penstock_lab.benches.kafka_runs import AnswerReader, Setting, driver, figures_of, producer, specified
from penstock_lab.judging import at_least
from penstock_lab.results import ResultsPage, Table, announce

COLUMNS = ("what", "sent rows/s", "taken rows/s", "answer lag P50 s", "answer lag P95 s", "answers")
#: The share of the offered rows that counts as held: batches end between two looks.
HELD = 0.97

_LAG = (
    "Sent and taken are counted between the same two commits, half a minute apart, by the broker's offsets and by the run, once rows that waited at the start are worked off (or a minute has passed). "
    "The answer lag is from the end of a window to the arrival of its last row at a reader of committed messages; it holds the "
    "0.5 s that late rows are waited for."
)


def skyline(report: ResultsPage, setting: Setting) -> None:
    """The skyline of every second to a topic, by Penstock and by hand."""
    rate = setting.sizes.rate
    ours = _measured(setting, "skyline", rate, "skyline of 8 attributes, windows of 1 s, to a topic")
    hand = _measured(
        setting, "skyline by hand", rate, "by hand: Spark's source and sink, collect_list, paretoset"
    )
    report.tables.append(Table("Skyline, topic to topic", COLUMNS, [ours, hand], _LAG))
    _held(report, "the skyline to a topic", rate, ours)
    report.claim(
        "more rows than the query by hand", "more", f"{ours[2]:.0f} against {hand[2]:.0f}", ours[2] > hand[2]
    )


def delta(report: ResultsPage, setting: Setting) -> None:
    """The skyline of every second to a Delta table."""
    rate = setting.sizes.rate
    row = _measured(setting, "skyline to Delta", rate, "skyline of 8 attributes, windows of 1 s, to Delta")
    note = "The lag is from the end of a window to the time of the table's commit; it holds the 0.5 s that late rows are waited for."
    report.tables.append(Table("Skyline, topic to Delta table", COLUMNS, [row], note))
    _held(report, "the skyline to a Delta table", rate, row)


def words(report: ResultsPage, setting: Setting) -> None:
    """Running word counts to a topic and to a Delta table, by Penstock and by hand."""
    rate = setting.sizes.words
    ours = _measured(setting, "words", rate, "count of each word as it comes, to a topic and to Delta")
    hand = _measured(
        setting, "words by hand", rate, "by hand: Spark's count in update mode, foreachBatch to both"
    )
    note = (
        "A million counts a minute leave twice, once to each place. By hand there is one count a word and batch, so fewer answers; a "
        "batch that is tried again comes twice. The lag is from the time in a message to its last count at a reader of committed messages."
    )
    report.tables.append(Table("Word count, topic to topic and Delta table", COLUMNS, [ours, hand], note))
    _held(report, "word count to a topic and a Delta table", rate, ours)


def _held(report: ResultsPage, what: str, rate: int, row: tuple[Any, ...]) -> None:
    report.claim(
        f"{rate:,} rows/s of {what} are held",
        f"at least {HELD * rate:,.0f} rows/s sent and taken",
        f"{row[1]:,.0f} sent, {row[2]:,.0f} taken",
        at_least(min(row[1], row[2]), HELD * rate),
    )


def _measured(setting: Setting, kind: str, rate: int, label: str) -> tuple[Any, ...]:
    announce(f"{label}, {rate} rows/s offered")
    sizes = setting.sizes
    name = kind.replace(" ", "-").lower()
    spec = specified(setting, name, kind, start="latest", warm_up=sizes.warm_up, seconds=sizes.seconds)
    reader = AnswerReader(spec, "at" if "words" in kind else "window_end")
    reader.start()
    process = driver(spec)
    with producer(spec, "words" if "words" in kind else "points", rate):
        found = figures_of(process, spec)
    lags = reader.lags(found["since"], found["until"])
    if kind == "skyline to Delta":
        lags = _commit_lags(Path(spec["work"]) / "table", found["since"], found["until"])
    p50, p95 = np.percentile(lags, [50, 95]) if lags else ("-", "-")
    return label, found["sent"], found["taken"], p50, p95, len(lags)


def _commit_lags(table: Path, since: float, until: float) -> list[float]:
    """Seconds from the end of a window to the commit of a Delta table that brought its rows."""
    found = []
    for file in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        told = [a["commitInfo"]["timestamp"] / 1000 for a in actions if "commitInfo" in a]
        stats = [json.loads(a["add"]["stats"]) for a in actions if "add" in a]
        ends = [datetime.fromisoformat(s["maxValues"]["window_end"]).timestamp() for s in stats]
        if ends and told and since <= told[0] <= until:
            found.append(told[0] - max(ends))
    return found
