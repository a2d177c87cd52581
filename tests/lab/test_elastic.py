"""What ``penstock bench elastic`` makes of its runs."""

from math import inf

import pytest

from penstock_lab.benches import elastic_flows, elastic_logs, elastic_paced, elastic_query
from penstock_lab.benches.elastic import judge_against_fixed
from penstock_lab.cell_runs import Cell, CellRuns
from penstock_lab.results import ResultsPage


def kept(folder, runs=3):
    return CellRuns(folder, inf, runs)


def cell(way, load="steps"):
    return Cell("query", load, way)


def filled(runs, figures):
    """Runs of cells by their way: (delay, worker-seconds) of each run."""
    cells = [cell(way) for way in figures]
    runs.fill(
        cells,
        lambda c, n: dict(zip(("delay", "worker_seconds"), figures[c.way][n], strict=True)),
        min(map(len, figures.values())),
    )
    return cells


@pytest.mark.parametrize(
    ("policy", "holds"),
    [
        ((0.5, 90.0), [True, True, True]),
        ((1.5, 90.0), [False, True, True]),
        ((0.5, 120.0), [True, False, True]),
        ((0.9, 150.0), [True, False, False]),
    ],
)
def test_an_elastic_policy_is_judged_by_target_peak_and_threshold(tmp_path, policy, holds):
    """The peak is the largest fixed number of workers, whatever else is fixed."""
    runs, page = kept(tmp_path), ResultsPage("", "")
    figures = {"TB_RR, 2 fixed": (0.1, 10.0), "1 fixed": (9.0, 60.0), "3 fixed": (0.2, 180.0)}
    figures |= {"Fuzzy": policy, "Threshold": (0.8, 130.0)}
    cells = filled(runs, {way: [found] * 3 for way, found in figures.items()})
    judge_against_fixed(page, runs, cells, "Fuzzy", ("delay", "delay P95"), 1.0)
    assert [c.holds for c in page.claims] == holds
    assert "3 fixed" in page.claims[1].text


def test_nothing_is_judged_before_it_was_run(tmp_path):
    page = ResultsPage("", "")
    judge_against_fixed(page, kept(tmp_path), [cell("3 fixed"), cell("Fuzzy")], "Fuzzy", ("delay", ""), 1.0)
    assert page.claims == []


def test_cells_have_names_of_their_own():
    cells = [*elastic_query.cells(), *elastic_flows.cells(), *elastic_paced.cells(), *elastic_logs.cells()]
    assert len({c.name for c in cells}) == len(cells)
    assert all("/" not in c.name for c in cells)
