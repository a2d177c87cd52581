"""Elastic-PPQ against its authors' own logs: the same streams by the second, the controller step by step.

Reads ``elastic_ppq_rates.csv.gz`` (tuples of every second of a stream) and ``elastic_ppq_controller.csv.gz`` (what the
controller saw and decided at each step) from the folder of recorded data, and takes whatever streams they have.
"""

import csv
import gzip
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.picture import COLOURS, INK
from penstock_lab.judging import every, judged, near
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.elastic_recordings import recorded_file, recorded_rates
from penstock_lab.papers.elastic_streams import STREAMS
from penstock_lab.papers.parallel import spread
from penstock_lab.papers.query_runs import QueryOutcome, SimulatedQueryRun, Traffic, execute
from penstock_lab.results import ResultsPage, Table

#: Tables 4 and 5, the games: (threads of panes, of windows, splitting, delta %, CV) for both queries.
GAMES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Game1": ((3.82, 15.65, 2.74, 1.21, 0.86), (4.11, 27.7, 2.98, 1.45, 0.96)),
    "Game2": ((2.30, 25.3, 2.06, 1.76, 1.15), (2.81, 33.5, 2.32, 2.27, 1.23)),
    "Game3": ((1.98, 21.0, 1.89, 0.23, 0.78), (2.59, 31.7, 2.09, 0.57, 0.93)),
    "Game4": ((2.48, 28.9, 2.34, 1.19, 1.12), (3.10, 35.3, 2.62, 1.56, 1.96)),
}
#: Mean delay of the games' tuples in seconds (Table 3); the rare ones of tens of seconds are left out.
GAME_DELAYS = {"Game1": 0.0171, "Game2": 0.0141, "Game3": 0.0132, "Game4": 0.0122}
SETPOINT = 0.7
#: What is compared: column of the log, and the series of a simulated run.
COMPARED = {
    "pane_workers": "n",
    "window_workers": "m",
    "splitting": "splitting",
    "rho_panes": "rho_panes",
    "rho_windows": "rho_windows",
}
CORES = 64


@dataclass(frozen=True)
class LoggedRun:
    """One run of the authors: its columns, one entry a step of 2.5 seconds."""

    stream: str
    query: str
    columns: dict[str, Floats]


def run(scale: float, folder: Path) -> ResultsPage:
    """Step by step against the logs; Figs. 14-16 and the games of Tables 4-5 where their streams are there."""
    report = ResultsPage(
        "Elastic-PPQ against its authors' logs", f"penstock papers elastic-logs --scale {scale:g}"
    )
    logs, streams = logged_runs(), list(recorded_rates())
    games = [g for g in GAMES if g in streams]
    jobs = {(log.stream, log.query): _job(log.stream, log.query, scale) for log in logs}
    jobs |= {(g, q): _job(g, q, scale) for g in games for q in ("skyline", "top-delta")}
    keys = sorted(jobs)
    outs = dict(zip(keys, spread(execute, [jobs[k] for k in keys]), strict=True))
    step_by_step(report, logs, outs)
    if games:
        game_rows(report, games, outs)
    if "Game1" in games:
        game_one(report, outs["Game1", "skyline"], folder)
    power(report, outs)
    return report


def _job(stream: str, query: str, scale: float) -> SimulatedQueryRun:
    counts = recorded_rates()[stream]
    seconds = max(10.0, round(len(counts) * scale))
    traffic = Traffic("recorded", float(counts.mean()), min(seconds, float(len(counts))), stream=stream)
    delay = GAME_DELAYS.get(stream, 0.2)
    return SimulatedQueryRun(
        traffic, query=query.replace("-", "_"), label=stream, setpoint=SETPOINT, delay=delay
    )


@lru_cache
def logged_runs() -> tuple[LoggedRun, ...]:
    """The authors' complete runs at the set-point of Tables 4-5, of streams whose rates are known."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(recorded_file("elastic_ppq_controller.csv.gz"), "rt") as lines:
        for row in csv.DictReader(lines):
            if row["experiment"] == "complete" and row["set_point"] and float(row["set_point"]) == SETPOINT:
                for name in (*COMPARED, "watts"):
                    found[row["stream"], row["query"]][name].append(float(row[name] or "nan"))
    return tuple(
        LoggedRun(stream, query, {n: np.array(v) for n, v in columns.items()})
        for (stream, query), columns in sorted(found.items())
        if stream in recorded_rates()
    )


def step_by_step(
    report: ResultsPage, logs: tuple[LoggedRun, ...], outs: dict[tuple[str, str], QueryOutcome]
) -> None:
    """Mean and spread of each figure, and how far apart the two are at the same step."""
    rows: list[list[Any]] = []
    means: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for log in logs:
        out = outs[log.stream, log.query]
        for name, series in COMPARED.items():
            theirs, ours = log.columns[name], np.asarray(getattr(out, series))
            steps = min(len(theirs), len(ours))
            theirs, ours = theirs[:steps], ours[:steps]
            apart = float(np.nanmean(np.abs(theirs - ours)))
            rows.append([
                log.stream, log.query, name, _spread(theirs), _spread(ours), apart, _together(theirs, ours), steps,
            ])  # fmt: skip
            means[name].append((float(np.nanmean(ours)), float(np.nanmean(theirs))))
        watts = 68.25 / 12 * (np.asarray(out.n) + np.asarray(out.m))
        rows.append([
            log.stream, log.query, "watts", _spread(log.columns["watts"]), _spread(watts), "-", "-", len(watts),
        ])  # fmt: skip
    report.tables.append(
        Table(
            "The controller, step by step (every 2.5 s)",
            ("stream", "query", "figure", "log: mean (spread)", "ours: mean (spread)", "apart at a step, mean", "correlation", "steps"),
            rows,
            "Spread: standard deviation over the steps. Our streams have the published number of tuples in every second, evenly spread within it; what they did within "
            "a second, and the attributes of the games, are not published. The column 'watts' of these logs is below 1 and does not follow the workers, so it "
            "cannot be watts of that machine; ours are 5.7 W a worker.",
        )
    )  # fmt: skip
    for name, pairs in means.items():
        held = sum(near(pair).holds for pair in pairs)
        report.claim(
            f"Logs: mean of {name.replace('_', ' ')} in each run", "that of the log", f"{held} of {len(pairs)}",
            judged(held == len(pairs), f"within a quarter of it in all {len(pairs)}"),
        )  # fmt: skip


def _spread(values: Floats) -> str:
    return f"{np.nanmean(values):.3g} ({np.nanstd(values):.2g})"


def _together(a: Floats, b: Floats) -> float:
    known = ~(np.isnan(a) | np.isnan(b))
    if known.sum() < 3 or a[known].std() == 0 or b[known].std() == 0:
        return float("nan")
    return float(np.corrcoef(a[known], b[known])[0, 1])


def game_rows(report: ResultsPage, games: list[str], outs: dict[tuple[str, str], QueryOutcome]) -> None:
    """Tables 4 and 5: the real streams."""
    for number, query, place in ((4, "skyline", 0), (5, "top-delta", 1)):
        rows = []
        for game in games:
            out, paper = outs[game, query], GAMES[game][place]
            ours = (out.n.mean(), out.m.mean(), out.parts, 100 * out.delta, out.cv())
            rows.append([game, *(f"{p:g} / {o:.3g}" for p, o in zip(paper, ours, strict=True))])
        report.tables.append(
            Table(
                f"Table {number}, the games: {query} query, paper / ours",
                ("stream", "pane threads", "window threads", "splitting", "delta %", "CV"),
                rows,
            )
        )
    runs = [outs[g, q] for g in games for q in ("skyline", "top-delta")]
    soon = sum(o.delta <= 0.031 for o in runs)
    report.claim(
        "Tables 4-5, games: every stream ends within 3.1 % of its length", f"{len(runs)} of {len(runs)}",
        f"{soon}; at worst {max(o.delta for o in runs):.1%}", every(soon, len(runs)),
    )  # fmt: skip
    more = sum(
        outs[g, "top-delta"].n.mean() + outs[g, "top-delta"].m.mean()
        > outs[g, "skyline"].n.mean() + outs[g, "skyline"].m.mean()
        for g in games
    )
    report.claim(
        "Tables 4-5, games: top-delta needs more threads than skyline", f"{len(games)} of {len(games)}", str(more),
        every(more, len(games)),
    )  # fmt: skip
    threads = [(outs[g, "skyline"].m.mean(), GAMES[g][0][1]) for g in games]
    report.claim(
        "Table 4, games: window threads", ", ".join(f"{p:g}" for _, p in threads), ", ".join(f"{o:.1f}" for o, _ in threads),
        near(*threads),
    )  # fmt: skip


def game_one(report: ResultsPage, out: QueryOutcome, folder: Path) -> None:
    """Figs. 14 and 15: Game1 with the skyline query, against fixed 6 + 38 threads."""
    fixed = execute(replace(out.run, n=6, m=38, control=None, label="6 + 38 threads"))
    late = 0.05 * out.run.traffic.seconds
    rho = [float(np.nanmean(s[out.time > late])) for s in (out.rho_panes, out.rho_windows)]
    rows: list[list[Any]] = [
        [name, _rate(o), o.cv(), float(o.n.mean()), float(o.m.mean()), 100 * o.delta]
        for name, o in (("two levels", out), ("fixed 6 + 38", fixed))
    ]
    report.tables.append(
        Table(
            "Figs. 14-15: Game1, skyline query",
            ("approach", "windows/s", "CV", "pane threads", "window threads", "delta %"),
            rows,
            "Paper: utilisation 0.882 and 0.912; both close to five windows a second, less than 1 % apart; CV 0.86 and 0.66.",
        )
    )
    report.claim(
        "Fig. 14: mean utilisation of panes and of windows", "0.882 and 0.912", f"{rho[0]:.3f} and {rho[1]:.3f}",
        near((rho[0], 0.882), (rho[1], 0.912)),
    )  # fmt: skip
    apart = abs(rows[0][1] / rows[1][1] - 1)
    report.claim(
        "Fig. 15: throughput beside that of fixed threads", "less than 1 % apart", f"{apart:.1%} apart", apart < 0.01
    )  # fmt: skip
    report.claim(
        "Fig. 15: the throughput varies a little more", "CV 0.86 against 0.66", f"{rows[0][2]:.2f} against {rows[1][2]:.2f}",
        near((rows[0][2], 0.86), (rows[1][2], 0.66)),
    )  # fmt: skip
    report.plots.append(
        draw(folder / "elastic-ppq-fig14.png", lambda axes: _draw_game(axes, out, fixed), 4, 1, (9, 9))
    )


def _rate(out: QueryOutcome) -> float:
    return float(out.window_counts[: int(out.run.traffic.seconds)].mean())


def _draw_game(axes: Any, out: QueryOutcome, fixed: QueryOutcome) -> None:
    axes[0].plot(out.time, out.rate / 1e3, color=INK, linewidth=1)
    axes[0].set(
        ylabel="1000 tuples/s", title="Game1: load, pane threads and splitting, window threads, windows/s"
    )
    axes[1].step(out.time, out.n, where="pre", color=COLOURS[0], label="threads")
    axes[1].plot(out.time, out.splitting, color=COLOURS[3], linewidth=1, label="splitting")
    axes[2].step(out.time, out.m, where="pre", color=COLOURS[0])
    axes[2].set(ylabel="window threads")
    for o, colour, name in ((out, COLOURS[0], "two levels"), (fixed, COLOURS[1], "fixed 6 + 38")):
        axes[3].plot(
            np.arange(len(o.window_counts)) + 1, o.window_counts, color=colour, linewidth=0.8, label=name
        )
    axes[3].set(ylabel="windows/s", xlabel="time (s)")


def power(report: ResultsPage, outs: dict[tuple[str, str], QueryOutcome]) -> None:
    """Fig. 16: how much of the machine is in use."""
    rows: list[list[Any]] = []
    for (stream, query), out in outs.items():
        published = GAMES.get(stream, (None,))[0] or _published(stream)
        if query == "skyline":
            theirs = 100 * (published[0] + published[1]) / CORES if published else float("nan")
            rows.append([stream, theirs, 100 * float((out.n + out.m).mean()) / CORES])
    report.tables.append(
        Table(
            "Fig. 16: threads in use, % of the 64 cores (skyline query)",
            ("stream", "paper (from Table 4)", "ours"),
            rows,
            "The paper draws power over that of all cores at full speed, without numbers; threads in use are what it comes from.",
        )
    )
    by = {r[0]: r[2] for r in rows}
    games, maps = ([v for k, v in by.items() if k.startswith(w)] for w in ("Game", "MAP"))
    if games and maps:
        report.claim(
            "Fig. 16: the games need less of the machine than the bursty streams", "less, all of them",
            f"{max(games):.0f} % at most against {min(maps):.0f} % at least", max(games) < min(maps),
        )  # fmt: skip


def _published(stream: str) -> tuple[float, ...]:
    known = {name.replace(" = ", "="): rows[1] for name, rows in STREAMS.items()}
    return known.get(stream, ())
