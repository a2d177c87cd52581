"""Elastic-PPQ against its authors' own logs: the same streams by the second, the controller step by step.

Reads ``elastic_ppq_rates.csv.gz`` (tuples of every second of a stream) and ``elastic_ppq_controller.csv.gz`` (what the
controller saw and decided at each step) from the folder of recorded data, and takes whatever streams they have.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock_lab.judging import Judged, judged, near
from penstock_lab.papers.elastic_games import GAMES, game_one, game_rows, power
from penstock_lab.papers.elastic_log_files import HALVES, LoggedRun, logged_runs, simulated
from penstock_lab.papers.elastic_panes import PHASES
from penstock_lab.papers.elastic_recordings import recorded_rates
from penstock_lab.papers.elastic_streams import idle_share
from penstock_lab.papers.parallel import spread
from penstock_lab.papers.query_runs import QueryOutcome, SimulatedQueryRun, execute
from penstock_lab.results import ResultsPage, Table

#: What is compared: name of the figure -> the series of a simulated run.
COMPARED: dict[str, Callable[[QueryOutcome], Floats]] = {
    "pane_workers": lambda out: out.n,
    "window_workers": lambda out: out.m,
    "splitting": lambda out: out.splitting,
    "rho_panes": lambda out: out.rho_panes,
    "rho_windows": lambda out: out.rho_windows,
    "idle": idle_share,
}
#: Logs in tables of their own, by how the experiment's name begins.
GROUPS = {
    "complete": "Tables 4-5 and other set-points",
    "Fig. 9": "Fig. 9, the artificial case",
    "Fig. 10": "Fig. 10, bursts at the pane stage",
    "Fig. 12": "Fig. 12, with and without MERGE tasks",
    "Fig. 17": "Fig. 17, control interval and sampling period",
    "limits": "Fixed threads",
    "interference": "Beside other work",
}
#: Groups whose runs were set up with these very logs in view (decision 52), so that they are no test.
FITTED = ("Fig. 9", "interference")
#: A column of watts has numbers of a machine's size.
LEAST_WATTS = 10.0


@dataclass(frozen=True)
class Pair:
    """A log and our run beside it, one entry a step of both."""

    log: LoggedRun
    out: QueryOutcome

    @property
    def group(self) -> str:
        """Which table it is in."""
        return next((g for g in GROUPS if self.log.experiment.startswith(g)), self.log.experiment)

    @property
    def steps(self) -> int:
        """How many both have."""
        series = self.series("pane_workers")
        return 0 if series is None else len(series[0])

    def series(self, figure: str) -> tuple[Floats, Floats] | None:
        """Theirs and ours, as long as both last; ``None`` where the log has no such figure."""
        theirs = self._idle() if figure == "idle" else self.log.columns[figure]
        if theirs is None or np.isnan(theirs).all() or not np.nanmax(theirs) > 0:
            return None
        ours = self._at_steps(COMPARED[figure](self.out))
        steps = min(len(theirs), len(ours))
        return theirs[:steps], ours[:steps]

    def _idle(self) -> Floats | None:
        """Where the column of watts is below 1 it falls as the window workers get busy, and only so: their idle share."""
        column = self.log.columns["watts"]
        return None if np.isnan(column).all() or np.nanmax(column) > 1 else column

    def _at_steps(self, values: Floats) -> Floats:
        """Runs with fixed workers are looked at every second; take what was there at each step of the log."""
        ends = np.arange(self.log.control, self.out.time[-1] + 1e-9, self.log.control)
        picked: Floats = values[np.searchsorted(self.out.time, ends - 1e-9).clip(max=len(values) - 1)]
        return picked


def run(scale: float, folder: Path) -> ResultsPage:
    """Step by step against the logs; Figs. 14-16 and the games of Tables 4-5 where their streams are there."""
    report = ResultsPage(
        "Elastic-PPQ against its authors' logs", f"penstock papers elastic-logs --scale {scale:g}"
    )
    beside = {log: spec for log in logged_runs() if (spec := simulated(log, scale)) is not None}
    games = {
        (g, q): _game(g, q, scale) for g in GAMES if g in recorded_rates() for q in ("skyline", "top-delta")
    }
    fixed = [
        replace(spec, n=6, m=38, control=None) for key, spec in games.items() if key == ("Game1", "skyline")
    ]
    outs = _executed([*beside.values(), *games.values(), *fixed])
    pairs = [Pair(log, outs[spec]) for log, spec in beside.items()]
    for group, title in GROUPS.items():
        step_by_step(report, title, [p for p in pairs if p.group == group])
    claims(report, pairs)
    for pair in pairs:
        if pair.group == "Fig. 9":
            artificial(report, pair)
    interference(report, [p for p in pairs if p.group == "interference"])
    if games:
        runs = {key: outs[spec] for key, spec in games.items()}
        game_rows(report, sorted({g for g, _ in games}), runs)
        power(
            report,
            runs
            | {
                (p.log.stream, p.log.query): p.out
                for p in pairs
                if p.log.set_point == 0.7 and p.group == "complete"
            },
        )
        for spec in fixed:
            game_one(report, runs["Game1", "skyline"], outs[spec], folder)
    return report


def _game(stream: str, query: str, scale: float) -> SimulatedQueryRun:
    spec = simulated(LoggedRun("complete", stream, query, None, {}), scale)
    assert spec is not None
    return spec


def _executed(specs: Sequence[SimulatedQueryRun]) -> dict[SimulatedQueryRun, QueryOutcome]:
    """Each different run once; those of one stream one after another, since the last stream is kept."""
    once = sorted(set(specs), key=lambda s: (s.traffic.stream, s.traffic.law, s.delay, s.query))
    return dict(zip(once, spread(execute, once), strict=True))


def step_by_step(report: ResultsPage, title: str, pairs: Sequence[Pair]) -> None:
    """Mean and spread of each figure, and how far apart the two are at the same step."""
    if not pairs:
        return
    figures = [f for f in COMPARED if any(p.series(f) for p in pairs)]
    same = pairs[0].group != "Fig. 10"  # its streams are of the same law, but other draws
    report.tables.append(
        Table(
            f"{title}: log / ours",
            ("run", *(f.replace("_", " ") for f in figures), "steps"),
            [[_name(p), *(_cell(p.series(f), same) for f in figures), p.steps] for p in pairs],
            _note(pairs[0].group),
        )
    )


def _note(group: str) -> str:
    told = "Mean (standard deviation over the steps), theirs / ours"
    if group == "Fig. 10":
        return f"{told}. The tuples of these streams are not published: ours are another draw of the same law, and steps cannot be compared."
    told += "; then how far apart the two are at the same step, on average."
    if group.startswith(HALVES):
        told += " The first half of each stream."
    more = {
        "complete": "Our streams have the published number of tuples in every second, anywhere within it; what they did within a second, and the attributes of the games, are not published. "
        "'idle': the column of watts of these logs is below 1 and falls as the window workers get busy (correlation of -0.77 to -0.96 with their utilisation up to 1, in the five looked at), so that it is their idle share.",
        "interference": "How the other work was made is not published; here it takes its share from every thread, which fits the logged workers.",
    }  # fmt: skip
    return " ".join([told, *([more[group]] if group in more else [])])


def _name(pair: Pair) -> str:
    more = pair.log.experiment.removeprefix(pair.group).strip()
    return f"{pair.log.name}{': ' * bool(more)}{more}"


def _cell(series: tuple[Floats, Floats] | None, same: bool) -> str:
    if series is None:
        return "-"
    theirs, ours = series
    told = (
        f"{np.nanmean(theirs):.3g} ({np.nanstd(theirs):.2g}) / {np.nanmean(ours):.3g} ({np.nanstd(ours):.2g})"
    )
    return told + (f"; {np.nanmean(np.abs(theirs - ours)):.2g}" if same else "")


def claims(report: ResultsPage, pairs: Sequence[Pair]) -> None:
    """Mean and spread of every figure in every run that was not set up with its log in view."""
    tests = [p for p in pairs if p.group not in FITTED]
    for what, of in (("mean", np.nanmean), ("spread", np.nanstd)):
        for figure in COMPARED:
            found: dict[str, list[bool]] = defaultdict(list)
            for pair in tests:
                series = pair.series(figure)
                given = pair.out.run.control is None and figure.endswith("workers")  # nothing was decided
                if series is not None and not given:
                    theirs, ours = (float(of(s)) for s in series)
                    found[pair.group].append(near((ours, theirs)).holds)
            if found:
                _tell(report, f"Logs: {what} of {figure.replace('_', ' ')} in each run", found)


def _tell(report: ResultsPage, text: str, found: Mapping[str, list[bool]]) -> None:
    every = [held for group in found.values() for held in group]
    measured = "; ".join(f"{g}: {sum(held)} of {len(held)}" for g, held in found.items())
    bound = Judged(all(every), f"within a quarter of it in all {len(every)}")
    report.claim(text, "that of the log", f"{sum(every)} of {len(every)} ({measured})", bound)


def artificial(report: ResultsPage, pair: Pair) -> None:
    """Fig. 9: threads at the end of each phase, and the watts of the machine, which this log has."""
    series = pair.series("pane_workers")
    assert series is not None
    each = len(series[1]) // len(PHASES)
    if each == 0 or pair.out.run.traffic.seconds < len(recorded_rates()[pair.log.stream]):
        return
    ends = [(i + 1) * each - 1 for i in range(len(PHASES))]
    theirs, ours = ([float(s[e]) for e in ends] for s in series)
    report.claim(
        "Log of Fig. 9: threads at the end of each phase", ", ".join(f"{t:g}" for t in theirs), ", ".join(f"{t:g}" for t in ours),
        judged(near(*zip(ours, theirs, strict=True)).holds, "each within a quarter"), fit=True,
    )  # fmt: skip
    watts = pair.log.columns["watts"]
    if not np.nanmedian(watts) > LEAST_WATTS:
        return
    slope, base = np.polyfit(series[0][1:], watts[1 : len(series[0])], 1)  # the first step is the sum of two
    extra, own = float(np.mean(watts[1:]) - base), float(slope * series[1].mean())
    report.tables.append(
        Table(
            "Fig. 9, the artificial case: watts",
            ("log: mean (spread)", "ours: mean (spread)", "of it without threads", "a thread"),
            [[_spread(watts[1:]), _spread(base + slope * series[1]), float(base), float(slope)]],
            "The only log with watts of a machine (others have numbers below 1 in that column, which are the window workers' idle share). Ours: the straight line through this log's watts and threads, at our threads.",
        )
    )  # fmt: skip
    report.claim(
        "Log of Fig. 9: watts that threads add",
        f"{extra:.1f} W",
        f"{own:.1f} W",
        near((own, extra)),
        fit=True,
    )


def _spread(values: Floats) -> str:
    return f"{np.nanmean(values):.4g} ({np.nanstd(values):.2g})"


def interference(report: ResultsPage, pairs: Sequence[Pair]) -> None:
    """Window workers while other work takes more and more of the machine."""
    means = [
        tuple(float(np.nanmean(s)) for s in found) for p in pairs if (found := p.series("window_workers"))
    ]
    if means:
        report.claim(
            "Logs: window workers beside other work", ", ".join(f"{t:.1f}" for t, _ in means), ", ".join(f"{o:.1f}" for _, o in means),
            judged(near(*((o, t) for t, o in means)).holds, "each within a quarter"), fit=True,
        )  # fmt: skip
