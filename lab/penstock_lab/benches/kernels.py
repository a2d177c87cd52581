"""``penstock bench kernels``: preference kernels against moocore and paretoset, the same points, answers compared."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.preference import dominance_factor, skyline
from penstock.preference.builders import minimize, skyline_of
from penstock.preference.cross import NEVER, dominated_by, latest_dominator
from penstock.preference.sliding import LiveSet
from penstock_lab.results import ResultsPage, Table


def run(quick: bool, folder: Path) -> ResultsPage:
    """Measure; with ``quick`` on a tenth of the rows."""
    report = ResultsPage(
        "Preference kernels", "penstock bench kernels" + (" --quick" if quick else ""), quick=quick
    )
    scale, repeats = (10, 3) if quick else (1, 5)
    _skylines(report, scale, repeats)
    _stream(report, scale, repeats)
    _cross(report, scale, repeats)
    return report


def point_sets(scale: int = 1) -> dict[str, Floats]:
    """The sets of the table, by name; a fixed seed makes them the same in every run."""
    rng = np.random.default_rng(20181210)
    sets = {
        "10k x 8": rng.random((10_000 // scale, 8)),
        "100k x 4": rng.random((100_000 // scale, 4)),
        "100k x 8": rng.random((100_000 // scale, 8)),
        "1M x 3": rng.random((1_000_000 // scale, 3)),
    }
    # Half of the most negative correlation that eight attributes can have in common.
    covariance = np.full((8, 8), -1 / 14) + np.eye(8) * (1 + 1 / 14)
    sets["anticorrelated 10k x 8"] = rng.multivariate_normal(np.zeros(8), covariance, 10_000 // scale)
    return sets


def medians_ms(works: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU time of each call in milliseconds, after one that is not counted (compilation, caches).

    CPU time, so that other work on the machine counts less; the calls take turns, so that what is left of its effect
    meets all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = time.process_time()
            work()
            if turn:
                times[name].append(time.process_time() - start)
    return {name: float(np.median(values)) * 1e3 for name, values in times.items()}


def _opponents() -> dict[str, Callable[[Floats], Ints]]:
    try:
        import moocore
        import paretoset
    except ImportError as error:
        raise PenstockError(f"The benchmark needs {error.name}; install it with penstock[bench].") from None
    return {
        "penstock": skyline,
        "moocore": lambda points: np.flatnonzero(moocore.is_nondominated(points, keep_weakly=True)),
        "paretoset": lambda points: np.flatnonzero(paretoset.paretoset(points, distinct=False)),
    }


def _skylines(report: ResultsPage, scale: int, repeats: int) -> None:
    sets, methods = point_sets(scale), _opponents()
    times: dict[str, list[float]] = {name: [] for name in methods}
    sizes, equal = [], True
    for points in sets.values():
        answers = {name: method(points) for name, method in methods.items()}
        sizes.append(len(answers["penstock"]))
        equal &= all(np.array_equal(answer, answers["penstock"]) for answer in answers.values())
        works = {name: partial(method, points) for name, method in methods.items()}
        for name, value in medians_ms(works, repeats).items():
            times[name].append(value)
    rows: list[list[Any]] = [["rows in the skyline", *sizes]]
    rows += [[name, *values] for name, values in times.items()]
    report.tables.append(
        Table(
            "Skyline, milliseconds of CPU time (median)",
            ["method", *sets],
            rows,
            "One thread; ties kept; uniform unless said."
            + " A tenth of the rows that the names say." * report.quick,
        )
    )
    report.claim("all methods give the same rows", "equal", "equal" if equal else "different", equal)
    ours = np.array(times["penstock"])
    best_other = np.minimum(times["moocore"], times["paretoset"])
    worst = float((ours / best_other).max())
    report.claim(
        "first or within 10 % of the first in every column",
        "<= 1.1",
        f"{worst:.2f} of the best",
        worst <= 1.1,
        full=True,
    )
    for name, least in (("moocore", 1.4), ("paretoset", 10.0)):
        ratio = times[name][0] / ours[0]
        report.claim(
            f"faster than {name} on 10k x 8", f">= {least}x", f"{ratio:.1f}x", ratio >= least, full=True
        )


def _stream(report: ResultsPage, scale: int, repeats: int) -> None:
    """Batches into an open pane: select the batch, merge it into the pane's partial result."""
    points = point_sets(scale)["10k x 8"]
    query = skyline_of(*(minimize(f"a{i}") for i in range(8)))
    rows: list[list[Any]] = []
    for size in (100, 1_000):
        batch = max(size // scale, 1)
        result = _fill(query, points, batch)
        same = set(map(tuple, result)) == set(map(tuple, points[skyline(points)]))
        taken = medians_ms({"fill": partial(_fill, query, points, batch)}, repeats)["fill"]
        rows.append([f"{batch}", taken * 1e3 / len(points), "equal" if same else "different"])
    report.tables.append(
        Table(
            "A stream into an open pane of 10k x 8, microseconds a tuple",
            ["batch", "us a tuple", "answer"],
            rows,
            "The authors' C++ class takes 11-38 us a tuple on such a machine (one tuple at a time).",
        )
    )
    report.claim(
        "batches of 1,000 into an open pane",
        "<= 2 us a tuple",
        f"{rows[-1][1]:.2f} us",
        rows[-1][1] <= 2,
        full=True,
    )


def _fill(query: Any, points: Floats, batch: int) -> Floats:
    pane = np.zeros((0, points.shape[1]))
    for start in range(0, len(points), batch):
        new = points[start : start + batch]
        new = new[query.select(new)]
        old, added = query.merge(pane, new)
        pane = np.concatenate([pane[old], new[added]])
    return pane


def _cross(report: ResultsPage, scale: int, repeats: int) -> None:
    """The window stage's work: the skyline of a new pane against the live rows of five panes."""
    rng = np.random.default_rng(7)
    panes = [p[skyline(p)] for p in (rng.random((12_000 // scale, 8)) for _ in range(6))]
    new, live = panes[-1], np.concatenate(panes[:-1])
    numbers = np.repeat(np.arange(5), [len(p) for p in panes[:-1]])
    plain = _plain(new, live, numbers)
    works: dict[str, Callable[[], Any]] = {
        "new rows dominated by live ones": lambda: dominated_by(new, live),
        "live rows dominated by new ones": lambda: dominated_by(live, new),
        "latest dominator of new rows": lambda: latest_dominator(new, live, numbers),
        "the same, a plain compiled loop": lambda: _plain(new, live, numbers),
        "dominance factors of all 12k rows of a pane": lambda: dominance_factor(
            rng.random((12_000 // scale, 8))
        ),
        "live set: a pane added, a window read": lambda: _slide(panes),
    }
    rows: list[list[Any]] = [[name, value] for name, value in medians_ms(works, repeats).items()]
    rows[-1][1] /= len(panes)
    report.tables.append(
        Table(
            f"Window stage: {len(new)} new rows, {len(live)} live rows, 8 attributes, milliseconds",
            ["work", "ms"],
            rows,
            "The plain loop stops at the first attribute that is worse and skips panes that cannot improve.",
        )
    )
    equal = np.array_equal(plain, latest_dominator(new, live, numbers))
    report.claim(
        "latest dominators equal those of the plain loop", "equal", "equal" if equal else "different", equal
    )
    ratio = rows[3][1] / rows[2][1]
    report.claim(
        "latest dominators against the plain loop", ">= 10x", f"{ratio:.0f}x", ratio >= 10, full=True
    )


def _slide(panes: list[Floats]) -> None:
    live = LiveSet.empty(panes[0].shape[1])
    for number, points in enumerate(panes):
        live = live.advance(number, points)
        live.window(number - 4, number)
        live = live.expire(number - 3)


@jit
def _plain(candidates: Floats, reference: Floats, panes: Ints) -> Ints:
    latest = np.full(len(candidates), NEVER, dtype=np.int64)
    for i in range(len(candidates)):
        for j in range(len(reference)):
            if panes[j] <= latest[i]:
                continue
            better, worse = False, False
            for k in range(candidates.shape[1]):
                if reference[j, k] > candidates[i, k]:
                    worse = True
                    break
                better |= reference[j, k] < candidates[i, k]
            if better and not worse:
                latest[i] = panes[j]
    return latest
