"""Rates held and answer lags from a topic to a topic and to a Delta table, beside queries written by hand."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from math import nan
from pathlib import Path
from statistics import fmean

import numpy as np

from penstock_lab.benches.kafka_readers import AnswerReader
from penstock_lab.benches.kafka_runs import Setting, driver, figures_of, producer, specified
from penstock_lab.cell_runs import Cell, CellRuns, Figures
from penstock_lab.judging import at_least, every
from penstock_lab.results import ResultsPage, Table

COLUMNS = (
    "what",
    "sent rows/s",
    "taken rows/s",
    "answer lag P50 s",
    "answer lag P95 s",
    "moments with an answer",
)
FIGURES = ("sent", "taken", "lag_p50", "lag_p95", "moments")
#: Seconds of rows that one batch may take, by Penstock and by hand alike: without a limit, batches of a way that falls behind double
#: in length, and a run has too few of them to measure.
MOST = 5
#: How often a batch begins, by Penstock and by hand alike.
TRIGGERS = {"skyline": "250 milliseconds", "words": "500 milliseconds"}
#: The share of the offered rows that counts as held: batches end between two looks.
HELD = 0.97
#: Ways that are compared -> in words.
WAYS = {
    "skyline": "skyline of 8 attributes, windows of 1 s, to a topic",
    "skyline by hand": "by hand: Spark's source and sink, collect_list, paretoset",
    "skyline to Delta": "skyline of 8 attributes, windows of 1 s, to Delta",
    "skyline to Delta by hand": "by hand: Spark's source, collect_list, paretoset, foreachBatch to Delta",
    "words": "counts of the words of a batch, to a topic and to Delta",
    "words by hand": "by hand: Spark's count in update mode, foreachBatch to both",
}

_LAG = (
    "Sent and taken are counted between the same two commits, half a minute apart, by the broker's offsets and by the run, once rows that waited at the start are worked off (or a minute has passed). "
    "The answer lag is from the end of a window to the arrival of its last row at a reader of committed messages; it holds the "
    "0.5 s that late rows are waited for."
)


def skyline(report: ResultsPage, setting: Setting) -> None:
    """The skyline of every second to a topic, by Penstock and by hand."""
    ways = ("skyline", "skyline by hand")
    _compared(report, setting, setting.sizes.rate, ways, "Skyline, topic to topic", _LAG)


def delta(report: ResultsPage, setting: Setting) -> None:
    """The skyline of every second to a Delta table, by Penstock and by hand."""
    note = (
        "The lag is from the end of a window to the time of the table's commit; it holds the 0.5 s that late rows are waited for. Of a commit "
        "with several windows the first and the last count. By hand a batch that is tried again comes twice."
    )
    ways = ("skyline to Delta", "skyline to Delta by hand")
    _compared(report, setting, setting.sizes.rate, ways, "Skyline, topic to Delta table", note)


def words(report: ResultsPage, setting: Setting) -> None:
    """Running word counts to a topic and to a Delta table, by Penstock and by hand, at the highest rate that is held."""
    note = (
        "Both ways give out a count for each word of a batch, to either place, with the newest time of the word in the batch; the lag is from that "
        "time to the count's arrival at a reader of committed messages, so what came earlier in a batch waited for longer. By hand a batch that is "
        "tried again comes twice."
    )
    rate = _highest_held(report, setting, "words")
    _compared(
        report,
        setting,
        rate,
        ("words", "words by hand"),
        "Word count, topic to topic and Delta table",
        note,
        claimed=max(setting.sizes.words),
    )


def _highest_held(report: ResultsPage, setting: Setting, way: str) -> int:
    """The first of the rates, from the highest on, that one run of ours holds; the lowest where it holds none."""
    kept, rows = _kept(setting), []
    for rate in setting.sizes.words:
        cell = _cell(setting, rate, way)
        kept.fill([cell], _measuring(setting, rate), runs=1)
        run = kept.of(cell)[0]
        held = min(run["sent"], run["taken"]) >= HELD * rate
        rows.append((rate, run["sent"], run["taken"], "yes" if held else "no"))
        if held:
            break
    title, columns = f"Rates tried: {WAYS[way]}", ("offered rows/s", "sent rows/s", "taken rows/s", "held")
    report.tables.append(
        Table(title, columns, rows, "One run of each rate, from the highest on until one is held.")
    )
    return int(rows[-1][0])


def _compared(
    report: ResultsPage,
    setting: Setting,
    rate: int,
    ways: tuple[str, str],
    title: str,
    note: str,
    claimed: int | None = None,
) -> None:
    """Runs of both ways in turn, ours first: a table of them, and what is claimed of them."""
    shown = ways[:1] if setting.quick else ways  # a look is at ours alone
    kept, cells = _kept(setting), [_cell(setting, rate, way) for way in shown]
    kept.fill(cells, _measuring(setting, rate))
    found = [{figure: kept.spread(cell, figure) for figure in FIGURES} for cell in cells]
    rows = [(WAYS[cell.way], *map(str, figures.values())) for cell, figures in zip(cells, found, strict=True)]
    told = f"{rate:,} rows/s offered, at most {MOST * rate:,} rows a batch; mean ± standard deviation of the runs. {note} {kept.speed(cells)}"
    report.tables.append(Table(title, COLUMNS, rows, told))
    if not setting.quick:  # five seconds of one run hold nothing
        ours, hand = kept.of(cells[0]), kept.of(cells[1])
        claim_rates(report, title, claimed or rate, rate, (ours, hand))


def claim_rates(
    report: ResultsPage,
    title: str,
    claimed: int,
    rate: int,
    runs: tuple[Sequence[Figures], Sequence[Figures]],
) -> None:
    """That the claimed rate is held; then, run against run, shorter lags than by hand, or more rows where one way does not hold it."""
    ours, hand = runs
    sent, taken = (fmean(run[figure] for run in ours) for figure in ("sent", "taken"))
    report.claim(
        f"{title}: {claimed:,} rows/s are held",
        f"at least {HELD * claimed:,.0f} rows/s sent and taken",
        f"{sent:,.0f} sent, {taken:,.0f} taken of {rate:,} offered",
        at_least(min(sent, taken), HELD * claimed, ",.0f"),
    )
    pairs = list(zip(ours, hand, strict=False))  # runs of one number were made one after the other
    if all(_holds(run, rate) for run in (*ours, *hand)):
        for figure, word in (("lag_p50", "P50"), ("lag_p95", "P95")):
            _claim_pairs(report, f"{title}: a shorter answer lag {word} than by hand", pairs, figure, -1)
    else:
        _claim_pairs(report, f"{title}: more rows than by hand", pairs, "taken", 1)


def _claim_pairs(
    report: ResultsPage, text: str, pairs: Sequence[tuple[Figures, Figures]], figure: str, better: int
) -> None:
    held = sum(better * (a[figure] - b[figure]) > 0 for a, b in pairs)
    measured = "; ".join(f"{_told(a[figure])} against {_told(b[figure])}" for a, b in pairs)
    report.claim(text, "in every pair of runs", measured, every(held, len(pairs)))


def _told(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _holds(run: Figures, rate: int) -> bool:
    return bool(min(run["sent"], run["taken"]) >= HELD * rate)


def _kept(setting: Setting) -> CellRuns:
    return CellRuns.beside(setting.kept / "kafka", setting.sizes.runs)


def _cell(setting: Setting, rate: int, way: str) -> Cell:
    spec = {
        "rate": rate,
        "most": MOST * rate,
        "trigger": TRIGGERS["words" if "words" in way else "skyline"],
        "warm_up": setting.sizes.warm_up,
        "seconds": setting.sizes.seconds,
    }
    return Cell("rates", f"{rate} rows a second", way, spec)


def _measuring(setting: Setting, rate: int) -> Callable[[Cell, int], Figures]:
    return lambda cell, number: _measured(setting, cell, rate, number)


def _measured(setting: Setting, cell: Cell, rate: int, number: int) -> Figures:
    kind, settings = cell.way, {name: value for name, value in cell.spec.items() if name != "rate"}
    name = f"{kind}-{rate}-{number}".replace(" ", "-").lower()
    spec = specified(setting, name, kind, start="latest", **settings)
    reader = AnswerReader(spec, "at" if "words" in kind else "window_end")
    reader.start()
    process = driver(spec)
    with producer(spec, "words" if "words" in kind else "points", rate):
        found = figures_of(process, spec)
    lags = reader.lags(found["since"], found["until"])
    if "Delta" in kind:
        lags = _commit_lags(Path(spec["work"]) / "table", found["since"], found["until"])
    p50, p95 = np.percentile(lags, [50, 95]) if lags else (nan, nan)
    return {
        "sent": found["sent"],
        "taken": found["taken"],
        "lag_p50": float(p50),
        "lag_p95": float(p95),
        "moments": float(len(lags)),
    }


def _commit_lags(table: Path, since: float, until: float) -> list[float]:
    """Seconds from the ends of the first and the last window of a commit of a Delta table to the commit."""
    found = []
    for file in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        told = [a["commitInfo"]["timestamp"] / 1000 for a in actions if "commitInfo" in a]
        stats = [json.loads(a["add"]["stats"]) for a in actions if "add" in a]
        bounds = [s[bound]["window_end"] for s in stats for bound in ("minValues", "maxValues")]
        ends = sorted({datetime.fromisoformat(bound).timestamp() for bound in bounds})
        if ends and told and since <= told[0] <= until:
            found += [told[0] - end for end in dict.fromkeys((ends[0], ends[-1]))]
    return found
