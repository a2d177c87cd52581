"""PPQ 4.3, the pane stage: four strategies by burstiness and workers; order of processing (Figs. 8-10)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.picture import COLOURS, INK
from penstock_lab.judging import both, judged, near, rising
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.parallel import spread
from penstock_lab.papers.query_runs import QueryOutcome, SimulatedQueryRun, Traffic, execute
from penstock_lab.results import ResultsPage, Table

TENTH = "100 milliseconds"
STRATEGIES = ("PB_RR", "TB_RR", "AS", "AS_PID")
SCENARIOS = {"no bursts": 0, "low, I = 1K": 1000, "medium, I = 2.5K": 2500, "high, I = 6K": 6000}
#: A comparison on the machine imitated: seven workers just keep up with whole panes where there are no bursts (Fig. 8a).
COMPARISON, TUPLE = 39e-9, 0.8e-6
#: Its claims, and those about the figures that the constants below were chosen by, are fits (decision 52).
#: In the bursty scenarios the correlation of the attributes changes periodically; how, the paper does not say. Here between
#: independent and anticorrelated attributes, every five panes: splitting into 17 lets 60 % more tuples pass there (Fig. 8g);
#: with independent attributes alone, or correlated ones, it would be more than twice as many.
CORRELATIONS, PERIOD = ((0.0, 0.0), (0.5, -0.09)), 1.0
#: Moving an entry of the sorted buffer of in-order processing. A double-ended queue of pointers, the paper's buffer, takes 0.5 ns
#: on a current machine, on which a comparison takes about half as long as on the one imitated.
SHIFT = 1e-9
SETPOINT = 0.9


def base(burst: float, seconds: float, rate: float = 100_000) -> SimulatedQueryRun:
    """A run of the pane stage alone with fixed workers, sampled every second."""
    traffic = Traffic("map" if burst else "poisson", rate, seconds, burst)
    return SimulatedQueryRun(
        traffic, slide=TENTH, scheduling=None, control=None, sampling=1.0, step=0.2, lowest=0.01,
        comparison=COMPARISON, tuple_time=TUPLE,
        correlations=CORRELATIONS if burst else ((0.0, 0.0),), correlation_period=PERIOD if burst else None, drain=0.0,
    )  # fmt: skip


def strategies(report: ResultsPage, scale: float, folder: Path) -> None:
    """Fig. 8: strategies x burstiness x workers."""
    seconds = max(3.0, 25.0 * scale)
    workers = (5, 6, 7, 9, 13, 17) if scale >= 0.3 else (5, 9, 17)
    scenarios = SCENARIOS if scale >= 0.3 else {k: SCENARIOS[k] for k in ("no bursts", "high, I = 6K")}
    jobs = [
        replace(base(burst, seconds), splitting=s, n=n, label=name)
        for name, burst in scenarios.items()
        for n in workers
        for s in STRATEGIES
    ]
    outs = {(o.run.label, o.run.splitting, o.run.n): o for o in spread(execute, jobs)}
    warm = seconds / 3
    for name in scenarios:
        rows = []
        for n in workers:
            row: list[Any] = [n]
            for s in STRATEGIES:
                out = outs[name, s, n]
                row += [out.mean_rho(warm), out.parts]
            rows.append(row)
        columns = [c for s in STRATEGIES for c in (f"{s} rho", f"{s} parts")]
        report.tables.append(
            Table(f"Fig. 8: {name}: utilisation and partitions a pane", ("workers", *columns), rows)
        )
    _enough(report, scenarios, workers, outs, warm)
    _strategy_claims(report, workers, outs, warm)
    _setpoint(report, seconds, workers, outs, warm)
    report.plots.append(
        draw(
            folder / "ppq-fig8.png",
            lambda axes: _draw(axes, scenarios, workers, outs, warm),
            2,
            len(scenarios),
            (13, 6),
        )
    )


def _first(outs: dict[Any, QueryOutcome], name: str, strategy: str, workers: Any, warm: float) -> int | None:
    return next((n for n in workers if outs[name, strategy, n].mean_rho(warm) < 1.0), None)


def _enough(
    report: ResultsPage, scenarios: Any, workers: Any, outs: dict[Any, QueryOutcome], warm: float
) -> None:
    rows = []
    most = workers[-1]
    for name in scenarios:
        row: list[Any] = [name]
        for s in STRATEGIES:
            n = _first(outs, name, s, workers, warm)
            row.append(
                n
                if n is not None
                else f"none: {1 / outs[name, s, most].mean_rho(warm):.0%} of the load at {most}"
            )
        rows.append(row)
    report.tables.append(
        Table(
            "Fig. 8a: fewest workers that sustain the load",
            ("scenario", *STRATEGIES),
            rows,
            "Paper: PB_RR needs 7 without bursts and cannot sustain the bursty streams with any number up to 17; "
            "TB_RR and AS_PID sustain all of them.",
        )
    )
    bursty = [r for r in rows if r[0] != "no bursts"]
    report.claim(
        "Fig. 8a: PB_RR without bursts", "7 workers", str(rows[0][1]), judged(rows[0][1] == 7, "7"), fit=True
    )
    if len(workers) > 3:
        report.claim(
            "Fig. 8a: PB_RR cannot sustain bursty streams", "none with 17 workers",
            "; ".join(f"{r[0]}: {r[1]}" for r in bursty), all(isinstance(r[1], str) for r in bursty), fit=True,
        )  # fmt: skip
        report.claim(
            "Fig. 8a: TB_RR and AS_PID sustain every stream", "all", "; ".join(f"{r[0]}: {r[2]}, {r[4]}" for r in rows),
            all(isinstance(r[2], int) and isinstance(r[4], int) for r in rows), fit=True,
        )  # fmt: skip


def _strategy_claims(report: ResultsPage, workers: Any, outs: dict[Any, QueryOutcome], warm: float) -> None:
    high = "high, I = 6K"
    most = workers[-1]
    pb, tb, as_, pid = (outs[high, s, most] for s in STRATEGIES)
    rows: list[list[Any]] = [
        [s, o.selected, o.selected / pb.selected - 1, 1 - 1 / o.balance, o.mean_rho(warm), o.parts]
        for s, o in zip(STRATEGIES, (pb, tb, as_, pid), strict=True)
    ]
    report.tables.append(
        Table(
            f"Figs. 8g, 8h: highly bursty, {most} workers",
            ("strategy", "passing", "more than PB_RR", "least busy behind busiest", "utilisation", "parts"),
            rows,
            "Paper: TB_RR passes 60 % more than PB_RR; PB_RR's least busy worker is 58 % behind its busiest, TB_RR is even; AS reaches 0.63 "
            "with 2.41 parts, AS_PID 0.89 with 2.03.",
        )
    )
    report.claim(
        "Fig. 8g: TB_RR passes many more tuples on than PB_RR",
        "60 % more",
        f"{rows[1][2]:.0%} more",
        near((rows[1][2], 0.6), form=".0%"),
        fit=True,
    )
    report.claim(
        "Fig. 8h: balance from best to worst", "TB_RR < AS, AS_PID < PB_RR",
        ", ".join(f"{r[0]} {r[3]:.0%}" for r in rows), rows[1][3] < min(rows[2][3], rows[3][3]) and rows[0][3] > max(rows[2][3], rows[3][3]),
    )  # fmt: skip
    report.claim(
        "Fig. 8f: parts of AS_PID and of AS at 17 workers", "2.03 and 2.41", f"{pid.parts:.2f} and {as_.parts:.2f}",
        both(judged(pid.parts < as_.parts, "AS_PID fewer"), near((pid.parts, 2.03), (as_.parts, 2.41))), fit=True,
    )  # fmt: skip
    five_as, five_pid = outs[high, "AS", 5], outs[high, "AS_PID", 5]
    report.claim(
        "Fig. 8f: at 5 workers AS does not split enough, AS_PID does", "rho 1.88 against 0.91",
        f"{five_as.mean_rho(warm):.2f} against {five_pid.mean_rho(warm):.2f}",
        near((five_as.mean_rho(warm), 1.88), (five_pid.mean_rho(warm), 0.91)), fit=True,
    )  # fmt: skip


def _setpoint(
    report: ResultsPage, seconds: float, workers: Any, outs: dict[Any, QueryOutcome], warm: float
) -> None:
    """Fig. 8c-f: AS_PID once more, four times as long, where it can hold the set-point and must split for it."""
    # Enough workers to reach it by splitting, and too few to reach it without.
    cells = [
        (name, n)
        for name, strategy, n in outs
        if strategy == "AS_PID" and n >= (_first(outs, name, "TB_RR", workers, warm) or 99)
        and outs[name, "PB_RR", n].mean_rho(warm) > SETPOINT
    ]  # fmt: skip
    length, skip = 4 * seconds, 4 * seconds / 3
    jobs = [replace(base(SCENARIOS[name], length), n=n, label=name) for name, n in cells]
    rows: list[list[Any]] = [
        [o.run.label, o.run.n, o.mean_rho(skip), o.median_rho(skip), o.parts] for o in spread(execute, jobs)
    ]
    report.tables.append(
        Table(
            f"Fig. 8c-f: AS_PID over {length:g} s",
            ("scenario", "workers", "mean utilisation", "median utilisation", "parts"),
            rows,
            f"Set-point {SETPOINT:g}. Samples of a second, the first third left out.",
        )
    )
    error, median = (sum(abs(r[i] / SETPOINT - 1) for r in rows) / max(len(rows), 1) for i in (2, 3))
    report.claim(
        "Fig. 8c-f: AS_PID holds the set-point where it has something to split", "error below 2 %",
        f"{error:.1%} over {len(rows)} runs; of the median {median:.1%}", error < 0.02, fit=True,
    )  # fmt: skip


def _draw(axes: Any, scenarios: Any, workers: Any, outs: dict[Any, QueryOutcome], warm: float) -> None:
    for column, name in enumerate(scenarios):
        for s, colour in zip(STRATEGIES, COLOURS, strict=False):
            picked = [outs[name, s, n] for n in workers]
            axes[0][column].plot(
                workers, [o.mean_rho(warm) for o in picked], marker="o", ms=3, color=colour, label=s
            )
            axes[1][column].plot(workers, [o.parts for o in picked], marker="o", ms=3, color=colour)
        axes[0][column].axhline(SETPOINT, color=INK, linestyle="--", linewidth=0.8)
        axes[0][column].set(title=name, yscale="log", ylim=(0.2, 20))
        axes[1][column].set(xlabel="workers")
    axes[0][0].set(ylabel="utilisation")
    axes[1][0].set(ylabel="partitions a pane")


def disorder(report: ResultsPage, scale: float, folder: Path) -> None:
    """Figs. 9 and 10: in order against out of order, by the tuples' delay."""
    seconds = max(4.0, 30.0 * scale)
    delays = (0.0, 0.1, 0.2, 0.5, 1.0) if scale >= 0.3 else (0.0, 0.5)
    jobs = [
        replace(base(6000, seconds), splitting="TB_RR", n=5, delay=d, in_order=i, shift=SHIFT)
        for d in delays
        for i in (False, True)
    ]
    outs = {(o.run.delay, o.run.in_order): o for o in spread(execute, jobs)}
    rows = []
    for d in delays:
        out, ordered = outs[d, False], outs[d, True]
        cut, fewer = 1 - out.pane_latency / ordered.pane_latency, 1 - out.held / ordered.held
        rows.append([
            1e3 * d, out.pane_latency, ordered.pane_latency, cut, out.closing_lag, out.held, ordered.held, fewer, out.late,
        ])  # fmt: skip
    report.tables.append(
        Table(
            "Fig. 9: out of order (OOP) against in order (IOP), TB_RR, 5 workers, I = 6K",
            (
                "delay (ms)",
                "OOP pane latency (s)",
                "IOP (s)",
                "cut",
                "closing lag (s)",
                "OOP tuples held",
                "IOP",
                "fewer",
                "late",
            ),
            rows,
            "Paper: latency cut by 68 % and 80 % at 500 ms and 1 s; on average 60 % fewer tuples held; 0.01 % dropped.",
        )
    )
    by = {r[0]: r for r in rows}
    report.claim(
        "Fig. 9: latency cut at a delay of 500 ms",
        "68 %",
        f"{by[500][3]:.0%}",
        near((by[500][3], 0.68), form=".0%"),
        fit=True,
    )
    if 1000 in by:
        report.claim(
            "Fig. 9: latency cut at a delay of 1 s",
            "80 %",
            f"{by[1000][3]:.0%}",
            near((by[1000][3], 0.8), form=".0%"),
            fit=True,
        )
        report.claim(
            "Fig. 9: the cut grows with the delay",
            "yes",
            ", ".join(f"{r[3]:.0%}" for r in rows),
            rising([r[3] for r in rows]),
            fit=True,
        )
        late = [r[7] for r in rows if r[0] > 0]
        mean = sum(late) / len(late)
        report.claim(
            "Fig. 9: fewer tuples held",
            "60 % on average",
            f"{mean:.0%}",
            near((mean, 0.6), form=".0%"),
            fit=True,
        )
    _open_panes(report, scale, outs)
    report.plots.append(draw(folder / "ppq-fig9.png", lambda axes: _draw_disorder(axes, rows), 1, 2))


def _open_panes(report: ResultsPage, scale: float, outs: dict[Any, QueryOutcome]) -> None:
    seconds = max(3.0, 20.0 * scale)
    delays = (0.1, 0.2, 0.5, 1.0)
    slides = {"20 milliseconds": 20, "50 milliseconds": 50, TENTH: 100, "200 milliseconds": 200}
    jobs = [
        replace(base(6000, seconds, 20_000), splitting="TB_RR", n=5, delay=d, slide=s, window="1 second")
        for s in slides
        for d in delays
    ]
    found = {(o.run.slide, o.run.delay): o.open_panes for o in spread(execute, jobs)}
    rows = [[ms, *(found[s, d] for d in delays)] for s, ms in slides.items()]
    report.tables.append(
        Table(
            "Fig. 10: open panes by pane length and delay",
            ("pane (ms)", *(f"{1e3 * d:g} ms" for d in delays)),
            rows,
        )
    )
    ratio = [r[4] / r[2] for r in rows[:3]]
    report.claim(
        "Fig. 10: open panes grow in proportion to the delay", "5 times from 200 ms to 1 s",
        ", ".join(f"{x:.1f}" for x in ratio), near(*((x, 5.0) for x in ratio)),
    )  # fmt: skip


def _draw_disorder(axes: Any, rows: list[list[Any]]) -> None:
    delays = [r[0] for r in rows]
    axes[0].plot(delays, [r[1] for r in rows], marker="o", color=COLOURS[0], label="out of order")
    axes[0].plot(delays, [r[2] for r in rows], marker="o", color=COLOURS[1], label="in order")
    axes[0].plot(delays, [r[4] for r in rows], marker=".", color=COLOURS[2], label="closing lag")
    axes[0].set(title="pane latency", xlabel="mean delay (ms)", ylabel="s")
    axes[1].plot(delays, [r[5] for r in rows], marker="o", color=COLOURS[0])
    axes[1].plot(delays, [r[6] for r in rows], marker="o", color=COLOURS[1])
    axes[1].set(title="tuples held", xlabel="mean delay (ms)")
