"""MEAD: vertical scaling with arrival processes fitted online, against models that do not see bursts."""

from pathlib import Path
from typing import Any

from penstock.models import fit_kpc
from penstock.models.comparison import compare_loads
from penstock.picture import COLOURS, INK
from penstock_lab import recorded_traces
from penstock_lab.judging import Judged, both, count_near, every, judged, near
from penstock_lab.papers.differences import explain
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.mead_runs import SECONDS, STREAMS, MeadOutcome, MeadRun, arrivals, execute_all
from penstock_lab.papers.parallel import spread
from penstock_lab.results import ResultsPage, Table

NAMES = {"mg1": "M/G/1", "gig1": "GI/G/1", "map": "MAP/G/1", "threshold": "threshold"}
#: Fitting windows: Mead's default for the model that fits, the paper's two for those that only need a rate.
WINDOWS = {"mg1": 2, "gig1": 2, "map": 3}
#: Table I: stream -> target -> model -> (response, CPU %).
TABLE_1: dict[str, dict[float, dict[str, tuple[float, float]]]] = {
    "SYNT": {
        0.1: {"mg1": (0.254, 46.4), "gig1": (0.177, 46.4), "map": (0.056, 53.2)},
        0.2: {"mg1": (0.393, 46.4), "gig1": (0.208, 46.4), "map": (0.127, 50.2)},
        0.3: {"mg1": (0.609, 46.5), "gig1": (0.263, 48.3), "map": (0.142, 48.1)},
    },
    "BC": {
        0.3: {"mg1": (0.906, 46.9), "gig1": (0.820, 47.0), "map": (0.035, 55.8)},
        0.5: {"mg1": (2.101, 46.8), "gig1": (1.194, 46.9), "map": (0.158, 53.1)},
        0.75: {"mg1": (2.800, 46.9), "gig1": (2.210, 46.8), "map": (0.368, 50.3)},
    },
    "LM*": {
        1.5: {"mg1": (7.499, 45.4), "gig1": (6.077, 45.5), "map": (0.751, 61.2)},
        3.0: {"mg1": (7.931, 45.0), "gig1": (6.344, 45.4), "map": (1.580, 56.9)},
        5.0: {"mg1": (9.382, 45.4), "gig1": (6.311, 45.4), "map": (2.698, 53.8)},
    },
}
#: Table II, 95th percentile.
TABLE_2: dict[str, dict[float, dict[str, tuple[float, float]]]] = {
    "SYNT": {
        0.5: {"mg1": (1.478, 46.6), "map": (0.371, 60.0)},
        0.75: {"mg1": (1.184, 46.6), "map": (0.590, 49.7)},
    },
    "BC": {
        0.5: {"mg1": (3.871, 47.1), "map": (0.195, 58.6)},
        1.0: {"mg1": (3.711, 47.1), "map": (0.274, 54.5)},
    },
    "LM*": {
        7.0: {"mg1": (30.057, 45.5), "map": (4.830, 60.2)},
        10.0: {"mg1": (29.642, 45.7), "map": (9.546, 55.9)},
    },
}
#: Table III: (stream, target) -> events -> (response, CPU %), one window.
TABLE_3 = {
    ("SYNT", 0.2): {25_000: (0.126, 49.9), 50_000: (0.141, 48.7), 100_000: (0.468, 47.6)},
    ("BC", 0.5): {25_000: (0.175, 53.0), 50_000: (0.217, 51.2), 100_000: (0.516, 49.8)},
    ("LM*", 3.0): {25_000: (2.126, 54.2), 50_000: (2.415, 52.3), 100_000: (2.267, 53.0)},
}
THRESHOLD = {"SYNT": (0.122, 49), "BC": (0.310, 49), "LM*": (2.4, 48)}


#: Why claims differ where they do, by how the claim begins.
REASONS = {
    "Fig. 3: with bursts": "At the lowest utilisation moments and correlations fix the response least; the fit there is on the safe side.",
    "Table I: every figure": "not understood yet on BC, the paper's own trace; SYNT and LM* are stand-ins for streams that are not published",
    "Table II: every figure": "not understood yet on BC, the paper's own trace; SYNT and LM* are stand-ins for streams that are not published",
    "Table I:": "In the first interval after an abrupt change no model knows of it, and the tightest target leaves no room for that minute.",
    "Table II:": "The slowest 5 % of the tuples are those of the minute after an abrupt change, when no fitted model knows of it yet; our streams change more abruptly than a policy that looks once a minute can follow.",
    "Table III: on abrupt": "The changes of our synthetic stream are fewer, and it is shorter where the run is.",
    "Headline: on SYNT": "What is missed with the paper's two windows is what Tables I and II above miss with them.",
    "Headline: with": "The start with all of the CPU and one level less a minute is a larger part of a short run.",
}


def run(scale: float, folder: Path) -> ResultsPage:
    """Fig. 3, Tables I-III, the threshold policy."""
    report = ResultsPage("MEAD in the simulator", f"penstock papers mead --scale {scale:g}")
    models(report, scale)
    seconds = max(180.0, SECONDS * scale)
    streams = [
        s
        for s in (STREAMS if scale >= 0.3 else ("SYNT",))
        if s != "BC" or recorded_traces.folder() is not None
    ]
    outs = {o.run: o for made in spread(execute_all, _jobs(streams, seconds, scale)) for o in made}
    requirement(report, "Table I: mean response", TABLE_1, streams, seconds, outs, None)
    if scale >= 0.3:
        requirement(
            report, "Table II: 95th percentile of the response", TABLE_2, streams, seconds, outs, 0.95
        )
        window_size(report, streams, seconds, outs)
    threshold(report, streams, seconds, outs)
    headline(report, outs)
    report.plots.append(
        draw(
            folder / "mead-fig8.png",
            lambda axes: _draw(axes, streams, seconds, outs),
            2,
            max(2, len(streams)),
            (12, 6),
        )
    )
    explain(report, REASONS)
    return report


def _jobs(streams: list[str], seconds: float, scale: float) -> list[list[MeadRun]]:
    """Runs in groups that share their fits, the longest groups first."""
    full, groups = scale >= 0.3, []
    for s in streams:
        targets = [t for t in TABLE_1[s] if full or t == min(TABLE_1[s])]
        means = [MeadRun(s, m, t, seconds, windows=WINDOWS[m]) for t in targets for m in TABLE_1[s][t]]
        means += [MeadRun(s, "map", t, seconds, windows=2) for t in targets if full]
        groups.append([*means, MeadRun(s, "threshold", 0.0, seconds)])
        if full:
            upper = [
                MeadRun(s, m, t, seconds, 0.95, windows=WINDOWS[m])
                for t, ms in TABLE_2[s].items()
                for m in ms
            ]
            upper += [MeadRun(s, "map", t, seconds, 0.95, windows=2) for t in TABLE_2[s]]
            sizes = [(t, events) for (name, t), row in TABLE_3.items() if name == s for events in row]
            groups.append(upper + [MeadRun(s, "map", t, seconds, None, n, 1) for t, n in sizes])
    return sorted(groups, key=len, reverse=True)


def models(report: ResultsPage, scale: float) -> None:
    """Fig. 3: predicted and simulated response of one operator by utilisation."""
    loads = (0.3, 0.5, 0.6, 0.7, 0.8)
    rows: list[list[Any]] = []
    for name, stream in (("Poisson", None), ("LM*", "LM*"), ("BC", "BC")):
        if stream == "BC" and recorded_traces.folder() is None:
            continue
        gaps = _gaps(stream, max(120.0, 600.0 * scale))
        fits = fit_kpc(gaps, best=1, max_states=8)
        rows += [
            [name, c.utilisation, c.simulated_mean, c.mg1_mean, c.kingman_mean, c.map_mean[0]]
            for c in compare_loads(gaps, fits, loads, runs=2, percentiles=False)
        ]
    report.tables.append(
        Table(
            "Fig. 3: mean response of one operator (s), Erlang-2 service",
            ("stream", "utilisation", "simulated", "M/PH/1", "GI/G/1", "MAP/PH/1"),
            rows,
            "Poisson stands for the paper's taxi trace, whose arrivals are uncorrelated.",
        )
    )
    calm = [r for r in rows if r[0] == "Poisson"]
    report.claim(
        "Fig. 3: without bursts all models agree with the measurement", "indistinguishable",
        f"worst {max(abs(x / r[2] - 1) for r in calm for x in r[3:]):.0%} off",
        judged(all(abs(x / r[2] - 1) < 0.1 for r in calm for x in r[3:]), "each within 10 %"),
    )  # fmt: skip
    burst = [r for r in rows if r[0] == "LM*"]
    report.claim(
        "Fig. 3: with bursts M/PH/1 is far too low, MAP/PH/1 is not", "two orders of magnitude against close",
        f"simulated / M/PH/1 up to {max(r[2] / r[3] for r in burst):.0f}, MAP within a factor of "
        f"{max(max(r[5] / r[2], r[2] / r[5]) for r in burst):.1f}",
        both(
            judged(max(r[2] / r[3] for r in burst) >= 100, "100 times or more somewhere"),
            judged(all(1 / 2 < r[5] / r[2] < 2 for r in burst), "MAP/PH/1 within a factor of 2 everywhere"),
        ),
    )  # fmt: skip


def _gaps(stream: str | None, seconds: float) -> Any:
    import numpy as np

    if stream is None:
        return np.random.default_rng(1).exponential(1 / 300.0, int(300 * seconds))
    return np.diff(arrivals(stream, seconds))


def requirement(
    report: ResultsPage,
    title: str,
    paper: Any,
    streams: list[str],
    seconds: float,
    outs: dict[Any, MeadOutcome],
    share: Any,
) -> None:
    """Tables I and II."""
    rows: list[list[Any]] = []
    for stream in streams:
        for target, published in paper[stream].items():
            for model, (response, cpu) in published.items():
                for windows in (2, 3) if model == "map" else (2,):
                    out = outs.get(MeadRun(stream, model, target, seconds, share, windows=windows))
                    if out is None:
                        continue
                    verdict = "met" if out.met else "violated"
                    name = NAMES[model] + (", 2 windows" if windows < WINDOWS[model] else "")
                    rows.append([stream, target, name, response, out.figure, cpu, 100 * out.cpu, verdict])
    report.tables.append(
        Table(
            title,
            (
                "stream",
                "target (s)",
                "model",
                "paper (s)",
                "ours (s)",
                "paper CPU %",
                "our CPU %",
                "requirement",
            ),
            rows,
            "CPU: mean share over the three operators. MAP/G/1 fits the last 50,000, 25,000 and 12,500 gaps, the default of Mead; the "
            "paper's section IV-C names all three, its experiments have the first two (2 windows). "
            + "; ".join(f"{s}: {STREAMS[s]}" for s in streams)
            + ".",
        )
    )
    what = title.split(":")[0]
    # The order of the phases of SYNT was chosen with these tables in view (decision 53); the other streams were not.
    for where, part in ((" on SYNT", ["SYNT"]), ("", [s for s in streams if s != "SYNT"])):
        here = [r for r in rows if r[0] in part]
        three, two = (
            [r[7] == "met" for r in here if r[2] == "MAP/G/1" + more] for more in ("", ", 2 windows")
        )
        if not three:
            continue
        where = where or " on " + " and ".join(part)
        _met_claim(report, f"{what}: with MAPs every requirement is met{where}", two, three, "SYNT" in part)
        plain = [r for r in here if r[2] == "M/G/1"]
        missed = sum(r[7] != "met" for r in plain)
        report.claim(
            f"{what}: M/G/1 violates the requirements{where}", f"{len(plain)} of {len(plain)}",
            str(missed), every(missed, len(plain)), fit="SYNT" in part,
        )  # fmt: skip
    _figures_claim(report, what, rows, streams)


def _figures_claim(report: ResultsPage, what: str, rows: list[list[Any]], streams: list[str]) -> None:
    """Responses and CPU shares beside the printed ones, with the paper's two fitting windows where there are such runs."""
    two = {(r[0], r[1]) for r in rows if r[2].endswith("2 windows")}
    cells = [r for r in rows if r[2] != NAMES["map"] or (r[0], r[1]) not in two]
    by = {s: [(float(r[4]), float(r[3])) for r in cells if r[0] == s] for s in streams}
    responses, shares = sum(map(count_near, by.values())), count_near([(r[6], r[5]) for r in cells])
    each = ", ".join(f"{s} {count_near(pairs)} of {len(pairs)}" for s, pairs in by.items())
    report.claim(
        f"{what}: every figure is that of the paper", f"{2 * len(cells)} of {2 * len(cells)}",
        f"{responses + shares}: responses {each}; CPU {shares} of {len(cells)}",
        every(responses + shares, 2 * len(cells), f"within a quarter, MAP/G/1 with {2 if two else 3} windows"), fit="SYNT" in streams,
    )  # fmt: skip


def _met_claim(report: ResultsPage, text: str, two: list[bool], three: list[bool], fit: bool) -> None:
    """Requirements met with the paper's two fitting windows; the third, Mead's default, was added with BC in view (decision 53)."""
    held = two or three
    beside = f" (with 3 windows {sum(three)})" if two else " (with 3 windows)"
    bound = Judged(all(held), f"all {len(held)} with {2 if two else 3} windows")
    report.claim(text, f"{len(held)} of {len(held)}", f"{sum(held)}{beside}", bound, fit=fit or not two)


def window_size(
    report: ResultsPage, streams: list[str], seconds: float, outs: dict[Any, MeadOutcome]
) -> None:
    """Table III."""
    rows: list[list[Any]] = []
    for (stream, target), published in TABLE_3.items():
        for events, (response, cpu) in published.items():
            out = outs.get(MeadRun(stream, "map", target, seconds, None, events, 1))
            if out is not None:
                rows.append([stream, events, target, response, out.mean, cpu, 100 * out.cpu])
    report.tables.append(
        Table(
            "Table III: one fitting window of different sizes",
            ("stream", "events", "target (s)", "paper (s)", "ours (s)", "paper CPU %", "our CPU %"),
            rows,
            "On BC the paper's largest window misses its target by 3 %, ours does not: the release that its burst punishes falls into "
            "another minute.",
        )
    )
    synt = {r[1]: r[4] for r in rows if r[0] == "SYNT"}
    if synt:
        report.claim(
            "Table III: on abrupt changes the largest window reacts too slowly", "0.126, 0.141, 0.468 s",
            ", ".join(f"{synt[e]:.3f}" for e in sorted(synt)) + " s against 0.2 s",
            both(
                judged(max(synt[25_000], synt[50_000]) <= 0.2 < synt[100_000], "only the largest misses 0.2 s"),
                near(*((synt[n], TABLE_3["SYNT", 0.2][n][0]) for n in sorted(synt))),
            ),
            fit=True,
        )  # fmt: skip
    for stream, target, text in (
        ("BC", 0.5, "on BC only the largest window misses 0.5 s"),
        ("LM*", 3.0, "on LM* every window meets 3 s"),
    ):
        found = {r[1]: r[4] for r in rows if r[0] == stream}
        paper = {events: figure for events, (figure, _) in TABLE_3[stream, target].items()}
        if found:
            report.claim(
                f"Table III: {text}", ", ".join(f"{p:g}" for p in paper.values()) + " s",
                ", ".join(f"{found[e]:.3g}" for e in paper) + " s",
                both(
                    judged(all((found[e] <= target) == (p <= target) for e, p in paper.items()), "met and missed by the same windows"),
                    near(*((found[e], p) for e, p in paper.items())),
                ),
            )  # fmt: skip


def threshold(report: ResultsPage, streams: list[str], seconds: float, outs: dict[Any, MeadOutcome]) -> None:
    """The threshold policy, which knows no target."""
    rows: list[tuple[str, float, float, float, float]] = [
        (s, THRESHOLD[s][0], outs[MeadRun(s, "threshold", 0.0, seconds)].mean, THRESHOLD[s][1],
         100 * outs[MeadRun(s, "threshold", 0.0, seconds)].cpu)
        for s in streams
    ]  # fmt: skip
    report.tables.append(
        Table(
            "Fig. 9: threshold policy (0.5 / 0.7, every 10 s)",
            ("stream", "paper: mean response (s)", "ours (s)", "paper CPU %", "our CPU %"),
            rows,
        )
    )
    for stream, paper, ours, paper_cpu, cpu in rows:
        report.claim(
            f"Fig. 9: the threshold policy on {stream}", f"{paper:g} s with {paper_cpu} % of the CPU", f"{ours:.3g} s with {cpu:.0f} %",
            near((ours, paper), (cpu, paper_cpu)), fit=stream == "SYNT",
        )  # fmt: skip
    if "BC" in streams:
        target = min(TABLE_1["BC"])
        two, three = (outs.get(MeadRun("BC", "map", target, seconds, windows=n)) for n in (2, 3))
        fitted, (_, _, plain, _, _) = two or three, next(r for r in rows if r[0] == "BC")
        if fitted is not None:
            report.claim(
                f"Fig. 9: on BC MAPs at a target of {target:g} s respond sooner than the threshold policy", "0.035 s against 0.31 s",
                f"{fitted.figure:.3g} s against {plain:.3g} s", judged(fitted.figure < plain, f"sooner, with {2 if two else 3} windows"),
            )  # fmt: skip


def headline(report: ResultsPage, outs: dict[Any, MeadOutcome]) -> None:
    """What must hold on SYNT and BC."""
    maps = [o for r, o in outs.items() if r.model == "map" and r.windows > 1 and r.stream in ("SYNT", "BC")]
    ours, two = ([o for o in maps if o.run.windows == windows] for windows in (3, 2))
    _met_claim(
        report,
        "Headline: on SYNT and BC the MAP model meets every requirement of Tables I and II",
        [o.met for o in two],
        [o.met for o in ours],
        fit=True,
    )
    plain = [o for r, o in outs.items() if r.model == "mg1" and r.stream in ("SYNT", "BC")]
    report.claim(
        "Headline: on SYNT and BC M/G/1 violates them",
        f"{len(plain)} of {len(plain)}", str(sum(not o.met for o in plain)), not any(o.met for o in plain), fit=True,
    )  # fmt: skip
    # A short run has none with two windows.
    judged_by, windows = (two, 2) if two else (ours, 3)
    most = max(o.cpu for o in judged_by)
    report.claim(
        "Headline: with at most 65 % of the CPU on average",
        "at most 65 %",
        f"{most:.1%}",
        judged(most <= 0.65, f"at most 65 % in each run on SYNT and BC with {windows} windows"),
        fit=True,
    )
    other = max(o.other for o in judged_by)
    report.claim(
        "The other path stays within every target as well",
        "below 0.1 s",
        f"{other:.3f} s",
        judged(other < 0.1, f"below 0.1 s in each run on SYNT and BC with {windows} windows"),
        fit=True,
    )


def _draw(axes: Any, streams: list[str], seconds: float, outs: dict[Any, MeadOutcome]) -> None:
    for column, stream in enumerate(streams):
        target = min(TABLE_1[stream])
        for model, colour in (("mg1", COLOURS[1]), ("gig1", COLOURS[3]), ("map", COLOURS[0])):
            out = outs[MeadRun(stream, model, target, seconds, windows=WINDOWS[model])]
            axes[0][column].plot(out.time, out.response, color=colour, label=NAMES[model], linewidth=1)
            axes[1][column].step(out.time, out.share, where="pre", color=colour, linewidth=1)
        axes[0][column].axhline(target, color=INK, linestyle="--", linewidth=0.8)
        axes[0][column].set(title=f"{stream}, target {target:g} s", yscale="log", ylabel="mean response (s)")
        axes[1][column].set(xlabel="time (s)", ylabel="CPU share of the matcher", ylim=(0, 1.05))
