"""Models on what they have not seen: fitted to a window of a trace, judged on that window and on the next one.

Traces that no constant of the fits was chosen by: market data, logins, generated streams of other kinds than the fitted
processes, and windows of the usual recordings at other places.
"""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock.models import MAP, Erlang, MapPh1, fit_kpc
from penstock.models.kingman import Kingman
from penstock.models.lindley import simulate_queue
from penstock.models.mg1 import Mg1
from penstock.models.queue import TwoMoments
from penstock.models.trace_statistics import clean_gaps
from penstock.traffic import map2, poisson
from penstock.traffic.composition import Shaped
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import daily, steps
from penstock.traffic.trace import read_trace
from penstock.traffic.walk import RandomWalk
from penstock_lab import recorded_traces
from penstock_lab.benches.models_misses import Miss, figure_of, told
from penstock_lab.judging import at_least
from penstock_lab.results import ResultsPage, Table

LOADS = (0.5, 0.7, 0.9)
MODELS = ("MAP", "M/G/1", "Kingman")
#: The next window with its own rate given to the model, as a monitor does; the shape is that of the window before.
RATED = "next, rate known"
WINDOWS = ("same", "next", RATED)
#: Share of cells within a factor of 2: mean and P95 of the window itself, mean of the next one.
GOALS = {("same", "mean"): 0.95, ("same", "P95"): 0.90, ("next", "mean"): 0.85}


@dataclass(frozen=True)
class Cell:
    """One model at one load: predicted over simulated, for the window it was fitted to or the next one."""

    trace: str
    place: int
    load: float
    model: str
    window: str
    figure: str
    ratio: float
    #: Why it is missed, of those that a goal is about.
    cause: str = ""

    @property
    def near(self) -> bool:
        """Within a factor of 2."""
        return 0.5 <= self.ratio <= 2.0


def add(report: ResultsPage, quick: bool) -> None:
    """Tables and claims."""
    cells: list[Cell] = []
    skipped = 0
    for name, windows in traces(quick).items():
        for place in range(len(windows) - 1):
            some, left_out = cells_of(name, place, windows[place], windows[place + 1])
            cells += some
            skipped += left_out
    columns = [(w, f) for w in WINDOWS for f in ("mean", "P95")]
    rows = [
        (name, model, *(_share(cells, w, f, model, name) for w, f in columns))
        for name in dict.fromkeys(c.trace for c in cells)
        for model in MODELS
    ]
    rows += [("all", model, *(_share(cells, w, f, model) for w, f in columns)) for model in MODELS]
    head = ("trace", "model", *(f"{f}: {w}" for w, f in columns))
    note = (
        f"Windows of up to {SIZE:,} arrivals, {len({(c.trace, c.place) for c in cells})} pairs, loads {LOADS}, Erlang-2 "
        "services whose mean is set by the load on the window of the fit; the next window goes through the same server. 'Rate "
        "known': the model has the next window's rate and the shape of the window before. "
        f"{skipped} cells of next windows are left out: the rate rose until the server could not keep up. Kingman has no "
        "percentiles."
    )
    report.tables.append(Table("Unseen windows: cells within a factor of 2", head, rows, note))
    report.tables.append(misses(cells))
    for (window, figure), goal in GOALS.items():
        own = [c for c in cells if (c.model, c.window, c.figure) == ("MAP", window, figure)]
        share = float(np.mean([c.near for c in own]))
        report.claim(
            f"MAP on unseen windows: {figure} of the {window} window within a factor of 2",
            f"{goal:.0%} of the cells",
            f"{share:.0%} of {len(own)}",
            at_least(share, goal, ".0%"),
            full=True,
        )


def misses(cells: Sequence[Cell]) -> Table:
    """The cells that MAP misses, by trace and load, with the factor and why."""
    groups: dict[tuple[str, float, str], list[Cell]] = {}
    for c in cells:
        if c.model == "MAP" and (c.window, c.figure) in GOALS:
            groups.setdefault((c.trace, c.load, f"{c.figure}: {c.window}"), []).append(c)
    rows = []
    for key, own in groups.items():
        missed = [c for c in own if not c.near]
        if missed:
            factors = (f"{c.ratio:.2g} ({c.cause})" for c in missed)
            rows.append((*key, f"{len(missed)} of {len(own)}", ", ".join(factors)))
    return Table(
        "The cells that MAP misses, and why",
        ("trace", "load", "figure", "missed", "predicted over simulated (cause)"),
        rows,
        "The first cause that is so, tried in this order for each cell. " + told(c.cause for c in cells),
    )


#: Arrivals of a window at the most.
SIZE = 20_000


def traces(quick: bool) -> dict[str, list[Floats]]:
    """Consecutive windows of inter-arrival times, by trace."""
    most = 2 if quick else 5
    found = {name: np.diff(times) for name, times in _generated().items()}
    data = recorded_traces.folder()
    if data is not None:
        found |= dict(_recorded(data))
    return {name: _windows(clean_gaps(gaps), most) for name, gaps in found.items() if len(gaps) > 4_000}


def _windows(gaps: Floats, most: int) -> list[Floats]:
    size = min(SIZE, len(gaps) // 2)
    count = min(most, len(gaps) // size)
    first = (len(gaps) - count * size) // 2  # from the middle: not where the usual windows begin
    return [gaps[first + i * size : first + (i + 1) * size] for i in range(count)]


def _generated() -> dict[str, Floats]:
    return {
        "self-similar": SelfSimilar(400.0, 0.85).sample(300.0, 11),
        "random walk": RandomWalk(400.0).sample(300.0, 12),
        "daily wave over MAP(2)": Shaped(map2(400.0, 50.0), daily(100.0, 0.6)).sample(300.0, 13),
        "steps over Poisson": Shaped(poisson(400.0), steps((60.0, 2.0), (140.0, 0.5), (220.0, 1.5))).sample(
            300.0, 14
        ),
        "regular, slowly changing": _regular(400.0, 120_000),
    }


def _regular(rate: float, count: int) -> Floats:
    """Nearly constant gaps at a rate that changes slowly."""
    rng = np.random.default_rng(15)
    pace = 1.0 + 0.4 * np.sin(np.arange(count) / 4_000)
    return np.cumsum(rng.gamma(50.0, 1 / 50.0, count) / (rate * pace))


def _recorded(data: Path) -> Iterator[tuple[str, Floats]]:
    rng = np.random.default_rng(16)
    for kind in ("trades", "quotes"):
        path = data / f"us_equity_{kind}_20131010.csv.gz"
        if path.exists():
            with gzip.open(path, "rt") as lines:
                stamps = np.loadtxt(lines, delimiter=",", skiprows=1, usecols=0, max_rows=250_000)
            # Stamps are whole milliseconds: inside of one the arrivals are spread.
            yield f"market {kind}", np.diff(np.sort(stamps / 1e3 + rng.random(len(stamps)) * 1e-3))
    for name, file in (("BC-pAug89", "bc_paug89"), ("Azure code", "azure_llm_2023_code")):
        path = data / f"{file}.csv.gz"
        if path.exists():
            yield name, np.diff(read_trace(path, "ts_us", "us", None, payload=False).arrival)


def cells_of(name: str, place: int, here: Floats, after: Floats) -> tuple[list[Cell], int]:
    """Fit one window, judge on it and on the next; and how many cells the next window overloads."""
    mean = float(here.mean())
    scv = float(here.var()) / mean**2
    fitted = fit_kpc(here, best=1)[0]
    rng = np.random.default_rng(place)
    cells: list[Cell] = []
    skipped = 0
    for load in LOADS:
        law = Erlang(2, load * mean)
        queues = {
            "MAP": MapPh1(fitted.scaled(1.0 / mean), law),
            "M/G/1": Mg1(1.0 / mean, law),
            "Kingman": Kingman(TwoMoments(mean, scv), law),
        }
        pace = float(after.mean())
        known = {
            "MAP": MapPh1(fitted.scaled(1.0 / pace), law),
            "M/G/1": Mg1(1.0 / pace, law),
            "Kingman": Kingman(TwoMoments(pace, scv), law),
        }
        truths: dict[tuple[str, str], float] = {}
        first = len(cells)
        for window, gaps, models in (("same", here, queues), ("next", after, queues), (RATED, after, known)):
            if law.mean / float(gaps.mean()) >= 0.98:
                skipped += window == "next"
                continue
            responses = np.concatenate([simulate_queue(gaps, law.sample(gaps.size, rng)) for _ in range(3)])
            truth = {figure: figure_of(responses, figure) for figure in ("mean", "P95")}
            truths |= {(window, figure): value for figure, value in truth.items()}
            for model, queue in models.items():
                for figure, value in truth.items():
                    if figure == "P95" and model == "Kingman":
                        continue
                    predicted = queue.mean_response if figure == "mean" else queue.percentile(0.95)
                    cells.append(Cell(name, place, load, model, window, figure, predicted / value))
        cells[first:] = _with_causes(cells[first:], fitted, law, {"same": here, "next": after}, truths)
    return cells, skipped


def _with_causes(
    cells: list[Cell],
    fitted: MAP,
    law: Erlang,
    windows: dict[str, Floats],
    truths: dict[tuple[str, str], float],
) -> list[Cell]:
    """Cells of one load, those that MAP misses with their cause."""
    near = {(c.window, c.figure): c.near for c in cells if c.model == "MAP"}
    found = []
    for c in cells:
        if c.model == "MAP" and not c.near and (c.window, c.figure) in GOALS:
            gaps = windows[c.window]
            pace = float(gaps.mean())
            miss = Miss(
                fitted.scaled(1.0 / pace), law.mean / pace, gaps.size, c.figure, truths[c.window, c.figure]
            )
            later = c.window == "next"
            c = replace(c, cause=miss.cause(later, later and near[RATED, c.figure], c.place))
        found.append(c)
    return found


def _share(cells: list[Cell], window: str, figure: str, model: str, trace: str | None = None) -> str:
    own = [
        c.near
        for c in cells
        if (c.window, c.figure, c.model) == (window, figure, model) and trace in (None, c.trace)
    ]
    return f"{np.mean(own):.0%}" if own else "-"
