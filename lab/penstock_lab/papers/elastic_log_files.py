"""The runs whose controller the authors of Elastic-PPQ logged step by step, and the run of ours that stands beside each."""

import csv
import gzip
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from penstock.core.arrays import Floats
from penstock.sim.plants.query.preference_plant import QueryCosts
from penstock_lab.papers.elastic_panes import PANES_ONLY, TENTH
from penstock_lab.papers.elastic_recordings import recorded_file, recorded_rates
from penstock_lab.papers.query_runs import SimulatedQueryRun, Traffic

#: Set-point of the splitting controller in Tables 4-5, Fig. 17 and the runs beside other work; where a log names none it is this
#: in two-stage runs of the games, and the paper's usual one elsewhere.
SETPOINT, USUAL = 0.7, 0.9
#: Mean delay of the games' tuples in seconds (Table 3); the rare ones of tens of seconds are left out.
GAME_DELAYS = {"Game1": 0.0171, "Game2": 0.0141, "Game3": 0.0132, "Game4": 0.0122}
COLUMNS = ("rho_panes", "splitting", "rho_windows", "pane_workers", "window_workers", "watts")
#: Logs of many runs over one game, of which the first half is compared: all of them would take a quarter of an hour.
HALVES = ("Fig. 17", "interference")
#: Fig. 10's streams, whose tuples by the second are not published: law and burstiness at 80,000 tuples/s.
BURSTS = {"h0.6": ("selfsimilar", 0.6), "i1K": ("map", 1000.0)}


@dataclass(frozen=True, eq=False)
class LoggedRun:
    """One run of the authors: its columns, one entry a step."""

    experiment: str
    stream: str
    query: str
    set_point: float | None
    columns: dict[str, Floats]

    @property
    def name(self) -> str:
        """In the tables."""
        words = (self.stream, self.query, "" if self.set_point is None else f"set-point {self.set_point:g}")
        return ", ".join(w for w in words if w)

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.columns["pane_workers"])

    @property
    def control(self) -> float:
        """Seconds from step to step."""
        return periods(self.experiment)[0]


def periods(experiment: str) -> tuple[float, float]:
    """Seconds between decisions and between samples, as the experiment's name says.

    >>> periods("Fig. 17 control 10 s sampling 100 ms"), periods("complete")
    ((10.0, 0.1), (2.5, 0.25))
    """
    found = re.search(r"control ([\d.]+) s sampling (\d+) ms", experiment)
    return (float(found[1]), int(found[2]) / 1000) if found else (2.5, 0.25)


@lru_cache
def logged_runs() -> tuple[LoggedRun, ...]:
    """All logs, in the order of the file."""
    found: dict[tuple[str, str, str, str], list[list[float]]] = defaultdict(list)
    with gzip.open(recorded_file("elastic_ppq_controller.csv.gz"), "rt") as lines:
        for row in csv.DictReader(lines):
            key = (row["experiment"], row["stream"], row["query"], row["set_point"])
            found[key].append([float(row[name] or "nan") for name in COLUMNS])
    return tuple(
        LoggedRun(experiment, stream, query, float(point) if point else None, _columns(np.array(rows)))
        for (experiment, stream, query, point), rows in found.items()
    )


def _columns(rows: Floats) -> dict[str, Floats]:
    """By name. In some logs (Fig. 12) the steps are numbered twice, so that the figures stand one column further on, without watts."""
    if len(rows) > 1 and np.array_equal(rows[:, 0], np.arange(len(rows))):
        rows = np.column_stack([rows[:, 1:], np.full(len(rows), np.nan)])
    return dict(zip(COLUMNS, rows.T, strict=True))


def recorded(stream: str, scale: float, seconds: float = np.inf) -> Traffic:
    """A stream with as many tuples in every second as were recorded."""
    counts = recorded_rates()[stream]
    whole = min(float(len(counts)), seconds)
    length = min(max(10.0, round(whole * scale)), whole)
    return Traffic("recorded", float(counts.mean()), length, stream=stream)


def simulated(log: LoggedRun, scale: float) -> SimulatedQueryRun | None:
    """Our run beside a log; ``None`` where its stream is not known or the experiment is another kind."""
    kind = log.experiment
    if kind == "Fig. 10":
        return _burst(log, scale)
    if log.stream not in recorded_rates():
        return None
    query, delay = log.query.replace("-", "_"), GAME_DELAYS.get(log.stream, 0.2)
    if kind == "Fig. 9":
        return SimulatedQueryRun(
            recorded(log.stream, scale), slide=TENTH, scheduling=None, n=3, limit=PANES_ONLY, hold=5.0, setpoint=log.set_point or USUAL
        )  # fmt: skip
    if kind in ("Fig. 12 MERGE", "Fig. 12 default"):
        traffic = recorded(log.stream, scale, 2.5 * log.steps)
        return SimulatedQueryRun(traffic, scheduling="MERGE" if kind.endswith("MERGE") else "WIN_FB")
    control, sampling = periods(kind)
    common = SimulatedQueryRun(
        recorded(log.stream, scale / 2 if kind.startswith(HALVES) else scale), query=query, delay=delay, setpoint=log.set_point or SETPOINT, control=control, sampling=sampling
    )  # fmt: skip
    return _varied(common, kind)


def _burst(log: LoggedRun, scale: float) -> SimulatedQueryRun | None:
    way, _, name = log.stream.partition("_")
    if name not in BURSTS:
        return None
    law, burst = BURSTS[name]
    traffic = Traffic(law, 80_000, max(10.0, round(2.5 * log.steps * scale)), burst)  # type: ignore[arg-type]
    return SimulatedQueryRun(
        traffic, slide=TENTH, scheduling=None, splitting="AS_PID" if way == "aspid" else "none", limit=PANES_ONLY, drain=0.0
    )  # fmt: skip


def _varied(common: SimulatedQueryRun, kind: str) -> SimulatedQueryRun | None:
    if kind == "complete" or kind.startswith("Fig. 17"):
        return common
    fixed, beside = re.fullmatch(r"limits (\d+)-(\d+)", kind), re.fullmatch(r"interference ([\d.]+)", kind)
    if fixed:
        return replace(common, n=int(fixed[1]), m=int(fixed[2]), control=None)
    if beside:
        # How the other work was made is not published. That it takes its share from every thread fits the logged workers.
        slower = 1 + float(beside[1])
        return replace(common, comparison=slower * QueryCosts.comparison, tuple_time=slower * QueryCosts.tuple_time)  # fmt: skip
    return None
