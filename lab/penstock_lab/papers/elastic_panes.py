"""Elastic-PPQ 5.2, the pane stage: the artificial case, bursts, and how much to split (Figs. 9-11)."""

from pathlib import Path
from typing import Any

import numpy as np

from penstock.picture import COLOURS, INK
from penstock_lab.judging import at_least, both, judged, near, within
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.parallel import spread
from penstock_lab.papers.query_runs import QueryOutcome, SimulatedQueryRun, Traffic, execute
from penstock_lab.results import ResultsPage, Table

SETPOINT = 0.9
#: Workers where there is no window stage, of which the controller takes one for granted: 60 for the pane stage.
PANES_ONLY = 61
TENTH = "100 milliseconds"
#: Fig. 9: tuples a second in each of the six phases.
PHASES = (40_000, 50_000, 70_000, 77_000, 55_000, 40_000)


def artificial(report: ResultsPage, scale: float, folder: Path) -> None:
    """Fig. 9: the rate changes every 30 seconds."""
    phase = max(5.0, 30.0 * scale)
    levels = tuple((i * phase, rate / PHASES[0]) for i, rate in enumerate(PHASES) if i)
    traffic = Traffic("steps", PHASES[0], 6 * phase, levels=levels)
    # The published log begins with three threads and does not react to the first panes, which nothing splits yet.
    out = execute(SimulatedQueryRun(traffic, slide=TENTH, scheduling=None, n=3, limit=PANES_ONLY, hold=5.0))
    rows = []
    for i, rate in enumerate(PHASES):
        part = (out.time > (i + 0.5) * phase) & (out.time <= (i + 1) * phase)
        panes = out.pane_counts[int(i * phase) : int((i + 1) * phase)].mean()
        rows.append([
            f"{i * phase:.0f}-{(i + 1) * phase:.0f} s", rate, out.n[part][-1], np.nanmean(out.splitting[part]),
            np.nanmean(out.rho_panes[part]), panes,
        ])  # fmt: skip
    report.tables.append(
        Table(
            "Fig. 9: artificial case, pane stage",
            (
                "phase",
                "tuples/s",
                "threads at its end",
                "splitting, 2nd half",
                "utilisation, 2nd half",
                "panes/s",
            ),
            rows,
            "The paper has 3, 4, 6, 6 threads in the first four phases, then fewer; set-point 0.9, ideal 10 panes/s.",
        )
    )
    threads = [r[2] for r in rows]
    report.claim(
        "Fig. 9: threads grow with the rate in phases 2 and 3 and shrink in each of the last two",
        "3, 4, 6, 6, fewer, fewer", ", ".join(f"{t:.0f}" for t in threads),
        both(
            judged(threads[0] < threads[1] < threads[2] <= threads[3], "rising to the third phase, no fewer in the fourth"),
            judged(threads[5] < threads[4] < threads[3], "fewer in the fifth, fewer still in the sixth"),
        ), fit=True,
    )  # fmt: skip
    settled = [float(r[4]) for r in rows]
    report.claim(
        "Fig. 9: utilisation returns to the set-point in every phase",
        "0.9", ", ".join(f"{u:.2f}" for u in settled), within(0.81, 0.99, *settled), fit=True,
    )  # fmt: skip
    through = float(out.pane_counts[: int(6 * phase)].mean())
    report.claim(
        "Fig. 9: throughput over the run", "close to 10 panes/s", f"{through:.2f}", within(9.5, 10.5, through), fit=True
    )  # fmt: skip
    report.plots.append(
        draw(folder / "elastic-ppq-fig9.png", lambda axes: _draw_artificial(axes, out), 3, 1, (9, 7))
    )


def _draw_artificial(axes: Any, out: QueryOutcome) -> None:
    top, middle, bottom = axes
    top.plot(out.time, out.rate / 1e3, color=INK, label="arrivals (1000/s)")
    right = top.twinx()
    right.step(out.time, out.n, where="pre", color=COLOURS[0], label="threads")
    right.bar(out.time, out.splitting, width=1.5, color=COLOURS[3], alpha=0.5, label="splitting")
    top.set(ylabel="1000 tuples/s", title="Artificial case: load, threads and splitting of the pane stage")
    right.set(ylabel="threads, splitting")
    middle.plot(out.time, out.rho_panes, marker=".", color=COLOURS[0])
    middle.axhline(SETPOINT, color=COLOURS[1], linestyle="--")
    middle.set(ylabel="utilisation", ylim=(0, 3))
    seconds = np.arange(len(out.pane_counts)) + 1
    bottom.plot(seconds, out.pane_counts, color=COLOURS[2], linewidth=1)
    bottom.axhline(10, color=COLOURS[1], linestyle="--")
    bottom.set(ylabel="panes/s", xlabel="time (s)")


def bursts(report: ResultsPage, scale: float, folder: Path) -> None:
    """Fig. 10: elasticity alone against two levels."""
    seconds = max(10.0, 100.0 * scale)
    streams = {
        "MAP, I = 1K": Traffic("map", 80_000, seconds, 1000),
        "self-similar, H = 0.6": Traffic("selfsimilar", 80_000, seconds, 0.6),
    }
    jobs = [
        SimulatedQueryRun(
            t,
            slide=TENTH,
            scheduling=None,
            splitting=how,
            label=f"{name}, {way}",
            drain=0.0,
            limit=PANES_ONLY,
        )
        for name, t in streams.items()
        for how, way in (("none", "elasticity only"), ("AS_PID", "two levels"))
    ]
    outs = spread(execute, jobs)
    rows = []
    for out in outs:
        late = out.time > 0.4 * seconds
        rows.append([
            out.run.label, np.nanmean(out.rho_panes[late]), out.n[late].mean(), out.n.max(), np.nanmean(out.splitting[late]),
        ])  # fmt: skip
    report.tables.append(
        Table(
            "Fig. 10: bursts, pane stage, 80,000 tuples/s",
            ("stream and approach", "utilisation, settled", "threads, settled", "most threads", "splitting"),
            rows,
            "Settled: after 40 % of the run. Utilisation: the mean of the 250 ms samples, in which only the workers of panes that are open "
            "get tuples; that is what the controller sees. The paper has a utilisation of about 3 at 60 threads without splitting (MAP).",
        )
    )
    for name in streams:
        alone, two = (r for r in rows if r[0].startswith(name))
        report.claim(
            f"Fig. 10, {name}: without splitting more threads do not remove the bottleneck",
            "utilisation well above 1 (MAP: about 3) at 60 threads", f"{alone[1]:.2f} at {alone[3]:.0f}",
            both(at_least(alone[1], 2.0), judged(alone[3] >= 60, "with 60 threads tried")),
        )  # fmt: skip
        report.claim(
            f"Fig. 10, {name}: two levels hold the set-point with fewer threads",
            "0.9", f"{two[1]:.2f} with {two[2]:.1f} threads against {alone[2]:.1f}",
            both(within(0.81, 0.99, two[1]), judged(two[2] < alone[2], "fewer threads than without splitting")),
        )  # fmt: skip
    report.plots.append(
        draw(
            folder / "elastic-ppq-fig10.png",
            lambda axes: _draw_bursts(axes, outs),
            2,
            2,
            (10, 6),
        )
    )


def _draw_bursts(axes: Any, outs: list[QueryOutcome]) -> None:
    for one, out in zip(axes.ravel(), outs, strict=True):
        one.bar(out.time, out.n, width=2.2, color=COLOURS[0], alpha=0.4, label="threads")
        one.bar(out.time, out.splitting, width=2.2, color=COLOURS[3], alpha=0.6, label="splitting")
        right = one.twinx()
        right.plot(out.time, out.rho_panes, color=COLOURS[1], marker=".", linewidth=1)
        right.axhline(SETPOINT, color=INK, linestyle="--", linewidth=0.8)
        right.set(ylim=(0, 6), ylabel="utilisation")
        one.set(title=out.run.label, xlabel="time (s)", ylabel="threads, splitting")


def splitting(report: ResultsPage, scale: float, folder: Path) -> None:
    """Fig. 11: tuples that pass, by thread level, for even and for PID splitting."""
    levels = range(1, 13) if scale >= 0.3 else (1, 4, 8, 12)
    traffic = Traffic("map", 80_000, max(3.0, 30.0 * scale), 1000)
    jobs = [
        SimulatedQueryRun(traffic, slide=TENTH, scheduling=None, splitting=s, n=n, control=None, drain=0.0)
        for s in ("TB_RR", "AS_PID")
        for n in levels
    ]
    outs = {(o.run.splitting, o.run.n): o for o in spread(execute, jobs)}
    half = traffic.seconds / 3
    rows = []
    for n in levels:
        even, pid = outs["TB_RR", n], outs["AS_PID", n]
        rows.append([n, even.mean_rho(half), even.selected, pid.parts, pid.mean_rho(half), pid.selected])
    report.tables.append(
        Table(
            "Fig. 11: even splitting and PID splitting, MAP I = 1K at 80,000 tuples/s",
            (
                "threads",
                "even: utilisation",
                "even: passing",
                "PID: splitting",
                "PID: utilisation",
                "PID: passing",
            ),
            rows,
            "Passing: tuples that reach the window stage. Paper: 27 % without splitting, 58 % with 12 parts; at 8 threads "
            "54 % evenly split and 43 % with the PID (5.18 parts); 7 threads remove the bottleneck.",
        )
    )
    by = {r[0]: r for r in rows}
    report.claim(
        "Fig. 11: passing without splitting", "27 %", f"{by[1][2]:.0%}", near((by[1][2], 0.27), form=".0%")
    )
    report.claim(
        "Fig. 11: passing with 12-way even splitting",
        "58 %",
        f"{by[12][2]:.0%}",
        near((by[12][2], 0.58), form=".0%"),
    )
    report.claim(
        "Fig. 11: at 8 threads the PID lets fewer pass than even splitting",
        "43 % against 54 %", f"{by[8][5]:.0%} against {by[8][2]:.0%}",
        judged(0.75 * 0.11 <= by[8][2] - by[8][5] <= 1.25 * 0.11, "8 to 14 points fewer"),
    )  # fmt: skip
    enough = next((n for n in levels if by[n][4] < 1.0), None)
    report.claim(
        "Fig. 11: threads that remove the bottleneck",
        "7",
        str(enough),
        near((enough or 0, 7), share=0.0),
        fit=True,
    )
    report.plots.append(
        draw(folder / "elastic-ppq-fig11.png", lambda axes: _draw_splitting(axes, rows), 1, 2)
    )


def _draw_splitting(axes: Any, rows: list[list[Any]]) -> None:
    n = [r[0] for r in rows]
    for one, (rho, passing, title) in zip(
        axes, ((1, 2, "even splitting"), (4, 5, "PID splitting")), strict=True
    ):
        one.plot(n, [r[rho] for r in rows], marker="o", color=COLOURS[0], label="utilisation")
        one.axhline(SETPOINT, color=INK, linestyle="--", linewidth=0.8)
        right = one.twinx()
        right.bar(n, [100 * r[passing] for r in rows], alpha=0.3, color=COLOURS[3])
        right.set(ylabel="% passing", ylim=(0, 100))
        one.set(title=title, xlabel="threads", ylabel="utilisation", yscale="log")
