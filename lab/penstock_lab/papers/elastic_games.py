"""Elastic-PPQ's real streams: Figs. 14-16 and the games of Tables 4 and 5."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.picture import COLOURS, INK
from penstock_lab.judging import every, near
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.elastic_streams import COLUMNS, STREAMS, table_figures
from penstock_lab.papers.published_tables import claim_columns
from penstock_lab.papers.query_runs import QueryOutcome
from penstock_lab.results import ResultsPage, Table

#: Tables 4 and 5, the games: (threads of panes, of windows, splitting, delta %, CV) for both queries.
GAMES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Game1": ((3.82, 15.65, 2.74, 1.21, 0.86), (4.11, 27.7, 2.98, 1.45, 0.96)),
    "Game2": ((2.30, 25.3, 2.06, 1.76, 1.15), (2.81, 33.5, 2.32, 2.27, 1.23)),
    "Game3": ((1.98, 21.0, 1.89, 0.23, 0.78), (2.59, 31.7, 2.09, 0.57, 0.93)),
    "Game4": ((2.48, 28.9, 2.34, 1.19, 1.12), (3.10, 35.3, 2.62, 1.56, 1.96)),
}
CORES = 64
#: Stream and query -> the run at the set-point of Tables 4-5.
GameRuns = Mapping[tuple[str, str], QueryOutcome]


def game_rows(report: ResultsPage, games: list[str], outs: GameRuns) -> None:
    """Tables 4 and 5: the real streams."""
    for number, query, place in ((4, "skyline", 0), (5, "top-delta", 1)):
        published = [GAMES[game][place] for game in games]
        ours = [table_figures(outs[game, query]) for game in games]
        rows = [
            [game, *(f"{p:g} / {o:.3g}" for p, o in zip(theirs, own, strict=True))]
            for game, theirs, own in zip(games, published, ours, strict=True)
        ]
        title = f"Table {number}, the games: {query} query, paper / ours"
        report.tables.append(Table(title, ("stream", *COLUMNS), rows))
        claim_columns(report, f"Table {number}, games", COLUMNS, published, ours)
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


def game_one(report: ResultsPage, out: QueryOutcome, fixed: QueryOutcome, folder: Path) -> None:
    """Figs. 14 and 15: Game1 with the skyline query, against fixed 6 + 38 threads."""
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


def power(report: ResultsPage, outs: GameRuns) -> None:
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
