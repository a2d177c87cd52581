"""Rates held and answer lags from a topic to a topic and to a Delta table, beside queries written by hand."""

import json
from collections.abc import Sequence
from datetime import datetime
from math import nan
from pathlib import Path

import numpy as np

from penstock_lab.benches.kafka_runs import AnswerReader, Setting, driver, figures_of, producer, specified
from penstock_lab.cell_runs import RUNS, Cell, CellRuns, Figures, Spread
from penstock_lab.judging import at_least
from penstock_lab.results import ResultsPage, Table

COLUMNS = ("what", "sent rows/s", "taken rows/s", "answer lag P50 s", "answer lag P95 s", "answers")
FIGURES = ("sent", "taken", "lag_p50", "lag_p95", "answers")
#: The share of the offered rows that counts as held: batches end between two looks.
HELD = 0.97
#: Ways that are compared -> in words.
WAYS = {
    "skyline": "skyline of 8 attributes, windows of 1 s, to a topic",
    "skyline by hand": "by hand: Spark's source and sink, collect_list, paretoset",
    "skyline to Delta": "skyline of 8 attributes, windows of 1 s, to Delta",
    "words": "count of each word as it comes, to a topic and to Delta",
    "words by hand": "by hand: Spark's count in update mode, foreachBatch to both",
}

_LAG = (
    "Sent and taken are counted between the same two commits, half a minute apart, by the broker's offsets and by the run, once rows that waited at the start are worked off (or a minute has passed). "
    "The answer lag is from the end of a window to the arrival of its last row at a reader of committed messages; it holds the "
    "0.5 s that late rows are waited for."
)


def skyline(report: ResultsPage, setting: Setting) -> None:
    """The skyline of every second to a topic, by Penstock and by hand."""
    rate = setting.sizes.rate
    ours, hand = _compared(
        report, setting, rate, ("skyline", "skyline by hand"), "Skyline, topic to topic", _LAG
    )
    _held(report, setting, "the skyline to a topic", rate, ours)
    taken, by_hand = ours["taken"], hand["taken"]
    report.claim(
        "more rows than the query by hand",
        "more, beyond the spread",
        f"{taken} against {by_hand}",
        by_hand.below(taken),
    )


def delta(report: ResultsPage, setting: Setting) -> None:
    """The skyline of every second to a Delta table."""
    rate = setting.sizes.rate
    note = "The lag is from the end of a window to the time of the table's commit; it holds the 0.5 s that late rows are waited for."
    (ours,) = _compared(report, setting, rate, ("skyline to Delta",), "Skyline, topic to Delta table", note)
    _held(report, setting, "the skyline to a Delta table", rate, ours)


def words(report: ResultsPage, setting: Setting) -> None:
    """Running word counts to a topic and to a Delta table, by Penstock and by hand."""
    rate = setting.sizes.words
    note = (
        "A million counts a minute leave twice, once to each place. By hand there is one count a word and batch, so fewer answers; a "
        "batch that is tried again comes twice. The lag is from the time in a message to its last count at a reader of committed messages."
    )
    title = "Word count, topic to topic and Delta table"
    ours, _ = _compared(report, setting, rate, ("words", "words by hand"), title, note)
    _held(report, setting, "word count to a topic and a Delta table", rate, ours)


def _held(report: ResultsPage, setting: Setting, what: str, rate: int, ours: dict[str, Spread]) -> None:
    if setting.sizes.runs < RUNS:
        return  # five seconds of one run hold nothing
    report.claim(
        f"{rate:,} rows/s of {what} are held",
        f"at least {HELD * rate:,.0f} rows/s sent and taken",
        f"{ours['sent'].mean:,.0f} sent, {ours['taken'].mean:,.0f} taken",
        at_least(min(ours["sent"].mean, ours["taken"].mean), HELD * rate, ",.0f"),
    )


def _compared(
    report: ResultsPage, setting: Setting, rate: int, kinds: Sequence[str], title: str, note: str
) -> list[dict[str, Spread]]:
    """Runs of each way in turn; a table of them, and their figures."""
    kept = CellRuns.beside(setting.folder / "kafka", setting.sizes.runs)
    cells = [Cell("rates", f"{rate} rows a second", kind) for kind in kinds]
    kept.fill(cells, lambda cell, number: _measured(setting, cell.way, rate, number))
    found = [{figure: kept.spread(cell, figure) for figure in FIGURES} for cell in cells]
    rows = [(WAYS[cell.way], *map(str, figures.values())) for cell, figures in zip(cells, found, strict=True)]
    told = f"{rate:,} rows/s offered; mean ± standard deviation of the runs. {note} {kept.speed(cells)}"
    report.tables.append(Table(title, COLUMNS, rows, told))
    return found


def _measured(setting: Setting, kind: str, rate: int, number: int) -> Figures:
    sizes = setting.sizes
    name = f"{kind}-{number}".replace(" ", "-").lower()
    spec = specified(setting, name, kind, start="latest", warm_up=sizes.warm_up, seconds=sizes.seconds)
    reader = AnswerReader(spec, "at" if "words" in kind else "window_end")
    reader.start()
    process = driver(spec)
    with producer(spec, "words" if "words" in kind else "points", rate):
        found = figures_of(process, spec)
    lags = reader.lags(found["since"], found["until"])
    if kind == "skyline to Delta":
        lags = _commit_lags(Path(spec["work"]) / "table", found["since"], found["until"])
    p50, p95 = np.percentile(lags, [50, 95]) if lags else (nan, nan)
    return {
        "sent": found["sent"],
        "taken": found["taken"],
        "lag_p50": float(p50),
        "lag_p95": float(p95),
        "answers": float(len(lags)),
    }


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
