"""How fast streams are generated and described, on one core, and whether they are what they claim to be."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock.core.errors import PenstockError
from penstock.models import fit_map2
from penstock.traffic import describe, map2, poisson
from penstock.traffic.attributes import Attributes, correlation_of
from penstock.traffic.composition import Shaped, Superposition
from penstock.traffic.description import Description
from penstock.traffic.disorder import UniformDelay
from penstock.traffic.plot import plot_trace
from penstock.traffic.process import ArrivalProcess
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import daily
from penstock.traffic.stream import TupleStream
from penstock.traffic.trace import read_trace
from penstock.traffic.walk import RandomWalk
from penstock_lab.benches.traffic_plot import plot_scales
from penstock_lab.data import data_folder
from penstock_lab.results import ResultsPage, Table

_MILLION = 1e6


def run(quick: bool, folder: Path) -> ResultsPage:
    """Measure generators and statistics; check the goals and the known figures of a recorded trace."""
    report = ResultsPage(
        "Traffic: generators and trace statistics",
        "penstock bench traffic" + (" --quick" if quick else ""),
        quick=quick,
    )
    rows = 500_000 if quick else 5_000_000
    _arrivals(report, rows)
    _tuples(report, rows // 2)
    _statistics(report, folder)
    _burstiness(report, 60.0 if quick else 300.0)
    _recorded(report, folder)
    return report


def _best(action: Callable[[], int], times: int = 3) -> tuple[int, float]:
    """Rows, and the least CPU seconds of a few turns: on a shared machine the wall clock measures the others."""
    action()
    spent, rows = [], 0
    for _ in range(times):
        start = time.process_time()
        rows = action()
        spent.append(time.process_time() - start)
    return rows, min(spent)


def _arrivals(report: ResultsPage, rows: int) -> None:
    rate = 100_000.0
    processes: dict[str, ArrivalProcess] = {
        "Poisson": poisson(rate),
        "MAP(2), I = 1000": map2(rate, 1000.0),
        "self-similar, H = 0.8": SelfSimilar(rate, 0.8),
        "random walk": RandomWalk(rate),
        "MAP(2) with a daily cycle": Shaped(map2(rate, 1000.0), daily(10.0)),
        "Poisson + MAP(2)": Superposition((poisson(rate / 2), map2(rate / 2, 1000.0))),
    }
    table, speeds = [], {}
    for name, process in processes.items():
        count, seconds = _best(lambda p=process: p.sample(rows / rate, seed=1).size)  # type: ignore[misc]
        speeds[name] = count / seconds / _MILLION
        table.append((name, count, seconds, speeds[name]))
    count, seconds = _best(lambda: _plain_map2(rate, 1000.0, min(rows, 300_000)))
    speeds["MAP(2), one tuple at a time in Python"] = count / seconds / _MILLION
    table.append(("MAP(2), one tuple at a time in Python", count, seconds, count / seconds / _MILLION))
    report.tables.append(
        Table(
            "Arrival times",
            ("process", "arrivals", "CPU s", "million / s"),
            table,
            "One core, best of three, a block at a time.",
        )
    )
    fast, plain = speeds["MAP(2), I = 1000"], speeds["MAP(2), one tuple at a time in Python"]
    report.claim(
        "MAP(2) arrivals against a plain Python loop", "> 10 x", f"{fast / plain:.0f} x", fast > 10 * plain
    )
    report.claim("MAP(2) arrivals a second on one core", ">= 5 million", f"{fast:.1f} million", fast >= 5.0)


def _plain_map2(rate: float, dispersion: float, rows: int) -> int:
    """The papers' generator as one would write it first: an exponential and a coin for each arrival."""
    model, draw, phase, now, times = fit_map2(1.0 / rate, dispersion=dispersion), random.Random(1), 0, 0.0, []
    stay = [-1.0 / model.D0[i, i] for i in (0, 1)]
    leave = [model.D1[i, 1 - i] * stay[i] for i in (0, 1)]
    for _ in range(rows):
        now += draw.expovariate(1.0) * stay[phase]
        times.append(now)
        if draw.random() < leave[phase]:
            phase = 1 - phase
    return len(times)


def _tuples(report: ResultsPage, rows: int) -> None:
    rate, table, slowest = 100_000.0, [], np.inf
    for words in ("independent", "correlated", "anticorrelated"):
        for delay in (None, UniformDelay(0.2)):
            attributes = Attributes(8, ((0.0, correlation_of(words, 8)),))
            stream = TupleStream(
                map2(rate, 1000.0), delay, attributes=attributes, seconds=rows / rate, seed=1
            )
            count, seconds = _best(lambda s=stream: sum(b.num_rows for b in s.batches()))  # type: ignore[misc]
            table.append(
                (
                    words,
                    "uniform, mean 0.2 s" if delay else "none",
                    count,
                    seconds,
                    count / seconds / _MILLION,
                )
            )
            slowest = min(slowest, count / seconds / _MILLION)
    report.tables.append(
        Table(
            "Tuples with 8 attributes, as Arrow batches",
            ("attributes", "delays", "tuples", "CPU s", "million / s"),
            table,
        )
    )
    report.claim(
        "8-attribute tuples a second on one core (slowest kind)",
        ">= 1 million",
        f"{slowest:.1f} million",
        slowest >= 1.0,
    )


def _statistics(report: ResultsPage, folder: Path) -> None:
    times = map2(10_000.0, 1000.0).sample(120.0, seed=1)[:1_000_000]
    _, seconds = _best(lambda: describe(times).count)
    report.tables.append(
        Table(
            "Describing a trace",
            ("arrivals", "CPU s"),
            [(times.size, seconds)],
            "All of `penstock trace describe` but reading the file.",
        )
    )
    report.claim(
        "describing a million arrivals",
        "< 2 s",
        f"{seconds:.2f} s",
        seconds < 2.0 and times.size == 1_000_000,
    )
    plot = folder / "traffic-map2.png"
    plot_trace(plot, times, describe(times), "MAP(2), I = 1000")
    report.plots.append(plot)
    scales = folder / "traffic-scales.png"
    streams: dict[str, ArrivalProcess] = {
        "Poisson": poisson(10_000.0),
        "MAP(2), I = 1000": map2(10_000.0, 1000.0),
        "Self-similar, H = 0.75": SelfSimilar(10_000.0, 0.75),
    }
    plot_scales(scales, {name: process.sample(60.0, seed=1) for name, process in streams.items()})
    report.plots.append(scales)


def _burstiness(report: ResultsPage, seconds: float) -> None:
    """What was asked for and what is read off the generated stream, with its sampling error."""
    table, misses = [], 0
    for wanted in (1.0, 100.0, 1000.0, 4000.0):
        process = map2(30_000.0, wanted)
        found = describe(process.sample(seconds, seed=2))
        theory = float(process.dispersion_at([1.0])[0])
        error = 3.0 * np.sqrt(2.0 / seconds)
        misses += abs(found.dispersion[1.0] / theory - 1.0) > error
        table.append(
            (
                f"MAP(2), I = {wanted:g}",
                found.rate,
                theory,
                found.dispersion[1.0],
                _limit(found),
                found.verdict,
            )
        )
    for hurst in (0.6, 0.7, 0.8):
        similar = SelfSimilar(30_000.0, hurst)
        found = describe(similar.sample(seconds, seed=2))
        misses += found.hurst is None or abs(found.hurst - hurst) > 0.08
        theory = float(similar.dispersion_at([1.0])[0])
        table.append(
            (
                f"self-similar, H = {hurst}",
                found.rate,
                theory,
                found.dispersion[1.0],
                f"H {found.hurst:.2f}",
                found.verdict,
            )
        )
    columns = (
        "stream of 30,000 / s",
        "rate",
        "I at 1 s, theory",
        "I at 1 s, read",
        "limit or Hurst read",
        "verdict",
    )
    report.tables.append(Table(f"Burstiness of {seconds:.0f} s of stream", columns, table))
    report.claim(
        "dispersion (3 sampling errors) and Hurst parameter (0.08) come out as asked",
        "7 of 7",
        f"{7 - misses} of 7",
        misses == 0,
        full=True,
    )


def _limit(found: Description) -> str:
    return f"{found.limit.value:,.0f} at {found.limit.scale:g} s" if found.limit else "none"


def _recorded(report: ResultsPage, folder: Path) -> None:
    file = data_folder() / "bc_paug89.csv.gz"
    try:
        trace = read_trace(file, "ts_us", "us")
    except PenstockError:
        report.tables.append(
            Table("Bellcore trace", ("skipped",), [("set PENSTOCK_DATA to the folder of recorded traces",)])
        )
        return
    found = describe(trace)
    known = {1.0: 41.0, 10.0: 201.0, 100.0: 960.0}
    rows = [(f"dispersion at {scale:g} s", value, found.dispersion[scale]) for scale, value in known.items()]
    rows += [("rate", 318.2, found.rate), ("autocorrelation, lag 1", 0.20, found.autocorrelation[0])]
    report.tables.append(Table("Bellcore trace BC-pAug89", ("figure", "known", "read"), rows))
    close = all(abs(found.dispersion[scale] / value - 1.0) <= 0.04 for scale, value in known.items())
    report.claim(
        "Bellcore dispersion at 1, 10, 100 s",
        "41 / 201 / 960 within 4 %",
        " / ".join(f"{found.dispersion[s]:.0f}" for s in known),
        close,
    )
    hurst = found.hurst or 0.0
    report.claim("Bellcore Hurst parameter", "0.75 to 0.9", f"{hurst:.2f}", 0.75 <= hurst <= 0.9)
    plot = folder / "traffic-bellcore.png"
    plot_trace(plot, trace.arrival, found, "BC-pAug89")
    report.plots.append(plot)
