"""``penstock bench models``: speed of fits and solvers, and predicted against simulated response times."""

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import unknown
from penstock.models import Erlang, MapPh1, MicroBatch, fit_kpc, fit_map2, kpc
from penstock.models.comparison import compare_loads
from penstock.models.microbatch_loop import simulate_microbatch
from penstock.models.network import Application, Edge, Station
from penstock.models.network_simulate import simulate_network
from penstock.models.network_solve import solve_network
from penstock.models.online import OnlineFit
from penstock.models.trace_statistics import clean_gaps
from penstock.picture import BLUE, GREEN, INK, ORANGE, RED, picture
from penstock.traffic.trace import read_trace
from penstock_lab import recorded_traces
from penstock_lab.benches import models_unseen
from penstock_lab.judging import at_least, at_most, judged
from penstock_lab.results import ResultsPage, Table

LOADS = (0.5, 0.7, 0.9)
#: What MEAD reports for the same steps (section VII-D), seconds.
MEAD = {"fit": "12-20 s", "mean": "200 ms", "percentile": "2.5 s"}


PARTS = ("unseen",)


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """Tables and claims; ``quick`` takes fewer windows and repetitions. Windows that no fit has seen are a part with a page of its own."""
    report = ResultsPage(
        "Arrival models on unseen windows" if part == "unseen" else "Arrival and queueing models",
        "penstock bench models" + (" --quick" if quick else "") + (f" --part {part}" if part else ""),
        quick=quick,
    )
    if part is not None and part not in PARTS:
        raise unknown("part of the models", part, PARTS)
    if part == "unseen":
        models_unseen.add(report, quick)
        return report
    traces = _traces(quick)
    _speed(report, traces, repeats=5 if quick else 21)
    _accuracy(report, traces, folder)
    _online(report, traces, seconds=120.0 if quick else 600.0)
    _microbatch(report, seconds=4_000 if quick else 20_000)
    _network(report, tuples=400_000 if quick else 4_000_000)
    return report


def _traces(quick: bool) -> dict[str, Floats]:
    """Inter-arrival times by name: windows of the real traces where they are there, and synthetic MAPs."""
    traces: dict[str, Floats] = {}
    data = recorded_traces.folder()
    if data is not None:
        packets = np.diff(read_trace(data / "bc_paug89.csv.gz", "ts_us", "us", None, payload=False).arrival)
        for size in (25_000, 50_000):
            for place in (0, 2) if quick else range(4):
                start = place * (packets.size - size) // 3
                traces[f"BC {size // 1000}k @ {start // 1000}k"] = packets[start : start + size]
        for name in ("code", "conv"):
            path = data / f"azure_llm_2023_{name}.csv.gz"
            traces[f"Azure {name}"] = np.diff(read_trace(path, "ts_us", "us", None, payload=False).arrival)
    for dispersion in (10, 100, 1000):
        process = fit_map2(0.01, dispersion=dispersion)
        traces[f"MAP I={dispersion}"] = process.sample(50_000, np.random.default_rng(dispersion))
    return {name: clean_gaps(gaps) for name, gaps in traces.items()}


def _timed(call: Callable[[], Any], repeats: int) -> float:
    """CPU time of this thread, least of the runs; the first call, which loads compiled code, does not count.

    All of it runs in one thread, so this is the wall time on a core of one's own, whoever else uses the machine.
    """
    call()
    times = []
    for _ in range(repeats):
        begun = time.thread_time()
        call()
        times.append(time.thread_time() - begun)
    return min(times)


def _speed(report: ResultsPage, traces: dict[str, Floats], repeats: int) -> None:
    arrivals, service = kpc(*[fit_map2(1.0, dispersion=3.0)] * 4), Erlang(2, 0.7)
    mean = _timed(lambda: MapPh1(arrivals, service).mean_response, repeats)

    def percentile() -> float:
        queue = MapPh1(arrivals, service)
        queue.mean_response  # noqa: B018 - solved first, so that the percentile alone is timed below
        return queue.percentile(95)

    both = _timed(percentile, repeats)
    fifty = {name: gaps for name, gaps in traces.items() if gaps.size == 50_000}
    fits = {name: _timed(partial(fit_kpc, gaps), 3) for name, gaps in fifty.items()}
    worst = max(fits.values())
    burst, rng = fit_map2(0.001, dispersion=1000.0), np.random.default_rng(0)
    sampling = 2_000_000 / _timed(lambda: burst.sample(2_000_000, rng), 5)
    sizing = _timed(lambda: MicroBatch(burst, 1.0, 0.2, 0.002).workers_for(2.5, 95), repeats)
    rows = [
        ("MAP(16)/Erlang-2/1, mean response", f"{mean * 1e3:.2f} ms", MEAD["mean"]),
        ("MAP(16)/Erlang-2/1, 95th percentile, solved anew", f"{both * 1e3:.2f} ms", MEAD["percentile"]),
        ("fit_kpc of 50,000 gaps, slowest trace", f"{worst:.2f} s", MEAD["fit"]),
        ("fit_kpc of 50,000 gaps, median trace", f"{median(fits.values()):.2f} s", MEAD["fit"]),
        ("MAP(2) arrivals sampled", f"{sampling / 1e6:.0f} million/s", "-"),
        ("MicroBatch: smallest number of workers, from nothing", f"{sizing * 1e3:.1f} ms", "-"),
    ]
    note = f"CPU time of one thread, least of {repeats} runs (fits: of 3), compiled code loaded."
    report.tables.append(Table("Speed on one core", ("step", "here", "MEAD reports"), rows, note))
    report.claim("Mean response, 16 states", "within 5 ms", f"{mean * 1e3:.2f} ms", mean <= 0.005)
    report.claim("Percentile, 16 states", "within 20 ms", f"{both * 1e3:.2f} ms", both <= 0.020)
    report.claim("Fit of 50,000 gaps", "within 1 s", f"{worst:.2f} s at the most", worst <= 1.0)
    report.claim(
        "MAP(2) sampling",
        "5 million/s",
        f"{sampling / 1e6:.0f} million/s",
        judged(sampling >= 5e6, "at least 5 million/s"),
    )


def _accuracy(report: ResultsPage, traces: dict[str, Floats], folder: Path) -> None:
    rows, ratios = [], {"M/G/1": [], "Kingman": [], "MAP": [], "MAP, worst of 5": []}  # type: ignore[var-annotated]
    near_poisson, bursty_mg1 = [], []
    for name, gaps in traces.items():
        fits = fit_kpc(gaps)
        for row in compare_loads(gaps, fits, LOADS, percentiles=False):
            means = (row.mg1_mean, row.kingman_mean, row.map_mean[0], row.map_worst)
            found = [mean / row.simulated_mean for mean in means]
            for key, ratio in zip(ratios, found, strict=True):
                ratios[key].append(ratio)
            rows.append((name, fits[0].order, row.utilisation, row.simulated_mean, *found))
            if name == "Azure conv":
                near_poisson.append(found)
            elif row.utilisation == 0.9:
                bursty_mg1.append(1.0 / found[0])
    columns = ("trace", "phases", "load", "simulated", *ratios)
    note = (
        "Service Erlang-2. BC 25k @ 324k: 25,000 arrivals of BC-pAug89 from the 324,000th on. Load: utilisation; simulated: "
        "mean response in seconds of the trace itself; the last four columns are predicted over simulated, 1 is right."
    )
    report.tables.append(Table("Predicted over simulated mean response", columns, rows, note))
    report.plots.append(_plot(folder, rows, list(ratios)))
    for key in ("MAP", "MAP, worst of 5"):
        near = np.mean([0.5 <= ratio <= 2.0 for ratio in ratios[key]])
        report.claim(
            f"{key}: cells within a factor of 2", "90 %", f"{near:.0%} of {len(rows)}", at_least(near, 0.9, ".0%"), full=True
        )  # fmt: skip
    report.claim(
        "M/G/1 on bursty traces at utilisation 0.9: factor by which it is too low, median",
        "10 or more", f"{median(bursty_mg1):.0f} (least {min(bursty_mg1):.1f})", median(bursty_mg1) >= 10.0,
        full=True,
    )  # fmt: skip
    if near_poisson:
        worse = max(abs(np.log(m[2])) - abs(np.log(m[0])) for m in near_poisson)
        report.claim(
            "Near-Poisson trace (Azure conv): MAP no worse than M/G/1",
            "in every cell", "yes" if worse <= 0 else "no", worse <= 0.0,
        )  # fmt: skip


def _plot(folder: Path, rows: list[Any], models: list[str]) -> Path:
    path = folder / "models-accuracy.png"
    with picture(path, size=(9.0, 5.2)) as axis:
        for offset, (model, colour) in enumerate(zip(models, (BLUE, GREEN, RED, ORANGE), strict=True)):
            x = np.arange(len(rows)) + 0.18 * (offset - 1.5)
            axis.semilogy(x, [row[4 + offset] for row in rows], "o", color=colour, label=model, markersize=5)
        axis.axhspan(0.5, 2.0, color=INK, alpha=0.1, linewidth=0)
        axis.axhline(1.0, color=INK, linewidth=0.8)
        axis.set_xticks(
            np.arange(1, len(rows), 3), [row[0] for row in rows[1::3]], rotation=35, ha="right", fontsize=8
        )
        axis.set_ylabel("predicted over simulated mean response\n(utilisation 0.5, 0.7, 0.9 of each trace)")
        axis.grid(visible=False, axis="x")
    return path


def _online(report: ResultsPage, traces: dict[str, Floats], seconds: float) -> None:
    """The defaults on a live stream: new gaps every five seconds of stream time, CPU seconds counted."""
    data = recorded_traces.folder()
    if data is None:
        gaps = fit_map2(1 / 318.0, dispersion=500.0).sample(int(400 * seconds), np.random.default_rng(0))
    else:
        gaps = np.diff(read_trace(data / "bc_paug89.csv.gz", "ts_us", "us", None, payload=False).arrival)
    times, online, now = np.cumsum(gaps), OnlineFit(), 0.0
    fit_kpc(gaps[:5000])  # loads compiled code
    while now < seconds:
        low, high = np.searchsorted(times, [now, now + 5.0])
        now += 5.0
        online.add(gaps[low:high])
        online.look(now)
    share = online.spent / seconds
    report.claim(
        f"Online fit, 50,000 newest gaps, a look every 5 s for {seconds:.0f} s ({online.fits} fits)",
        "below 5 % of a core", f"{share:.1%}", share < 0.05, full=True,
    )  # fmt: skip


def _chance(values: Floats) -> float:
    """Standard error of the mean of a correlated series, from twenty stretches of it."""
    stretches = [float(stretch.mean()) for stretch in np.array_split(values, 20)]
    return float(np.std(stretches) / np.sqrt(19))


def _beyond_chance(predicted: float, simulated: float, error: float) -> float:
    """Relative deviation that three standard errors do not explain."""
    return max(abs(predicted - simulated) - 3.0 * error, 0.0) / simulated


def _microbatch(report: ResultsPage, seconds: int) -> None:
    rows, errors, rng = [], [], np.random.default_rng(1)
    for dispersion in (1, 100, 1000):
        arrivals = fit_map2(0.002, dispersion=dispersion)
        times = np.cumsum(arrivals.sample(500 * seconds, rng))
        for load in (0.5, 0.7):
            query = MicroBatch(arrivals, 1.0, 0.2, 2 * load / 500.0, workers=2)
            simulated = simulate_microbatch(times, 1.0, 0.2, 2 * load / 500.0, workers=2)
            mean, chance, p95 = (
                float(simulated.mean()),
                _chance(simulated),
                float(np.quantile(simulated, 0.95)),
            )
            predicted = (query.mean_response, query.error, query.percentile(95))
            rows.append((dispersion, load, mean, chance, p95, *predicted, query.late_share))
            errors.append(_beyond_chance(query.mean_response, mean, chance + query.error))
    columns = ("I", "load", "simulated", "+-", "P95", "predicted", "+-", "P95", "late")
    note = (
        f"Seconds; 500 tuples/s, trigger 1 s, overhead 0.2 s, 2 workers; {seconds:,} s of arrivals simulated. +- is one "
        "standard error, that of the prediction as the model states it; late: share of batches that run past their trigger."
    )
    report.tables.append(Table("Micro-batch query against trace-driven simulation", columns, rows, note))
    report.claim(
        "Micro-batch mean response: deviation beyond three standard errors",
        "below 2 %", f"{max(errors):.1%} at the most", at_most(max(errors), 0.02, ".0%"), full=True,
    )  # fmt: skip


def _network(report: ResultsPage, tuples: int) -> None:
    rows, errors, rng = [], [], np.random.default_rng(2)
    for dispersion in (1, 10, 100):
        arrivals = fit_map2(1.0, dispersion=dispersion)
        for name, app in _applications(arrivals).items():
            solved, simulated = solve_network(app), simulate_network(app, tuples, rng)
            path = solved.slowest
            times = simulated.sinks[path.path[-1]]
            mean, chance, p95 = float(times.mean()), _chance(times), float(np.quantile(times, 0.95))
            rows.append((name, dispersion, mean, chance, p95, path.mean, path.percentile(95)))
            errors.append(_beyond_chance(path.mean, mean, chance))
    columns = ("application", "I", "simulated", "+-", "P95", "predicted", "P95")
    note = "Times in mean gaps, Erlang-2 services; the numbers in the names are the loads. +- is one standard error."
    report.tables.append(
        Table("Source-to-sink response of applications against simulation", columns, rows, note)
    )
    report.claim(
        "Network means: deviation beyond three standard errors",
        "below 10 %", f"{max(errors):.1%} at the most", at_most(max(errors), 0.1, ".0%"), full=True,
    )  # fmt: skip


def _applications(arrivals: Any) -> dict[str, Application]:
    def line(*means: float) -> Application:
        names = [f"s{i}" for i in range(len(means))]
        stations = [Station(n, Erlang(2, m)) for n, m in zip(names, means, strict=True)]
        return Application(stations, [Edge(a, b) for a, b in pairwise(names)], {"s0": arrivals})

    fork = [
        Station("parse", Erlang(2, 0.3)),
        Station("count", Erlang(2, 0.6)),
        Station("match", Erlang(2, 0.7)),
    ]
    joined = [*fork, Station("merge", Erlang(2, 0.2), join=True)]
    edges = [Edge("parse", "count"), Edge("parse", "match")]
    back = [Edge("count", "merge"), Edge("match", "merge")]
    filtered = [Station("in", Erlang(2, 0.3), selectivity=0.4), Station("out", Erlang(2, 1.8))]
    return {
        "line 0.3, 0.5, 0.8": line(0.3, 0.5, 0.8),
        "line 0.8, 0.5, 0.3": line(0.8, 0.5, 0.3),
        "line 0.7, 0.7, 0.7": line(0.7, 0.7, 0.7),
        "fork 0.3 to 0.6, 0.7": Application(fork, edges, {"parse": arrivals}),
        "join 0.3, 0.6 with 0.7, 0.2": Application(joined, [*edges, *back], {"parse": arrivals}),
        "filter 0.3, 0.72": Application(filtered, [Edge("in", "out")], {"in": arrivals}),
    }
