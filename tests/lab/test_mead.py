"""What the page of MEAD on Spark says, from made-up runs."""

import json

import pytest

from penstock.core.errors import PenstockError
from penstock_lab.benches.mead import LONG, PARTS, RECORDED, TARGETS, _claims, _plot, cells, tell
from penstock_lab.cell_runs import CellRuns, attempt_all, missing
from penstock_lab.part_pages import write_page
from penstock_lab.results import ResultsPage


@pytest.fixture(autouse=True)
def recorded_trace(monkeypatch, tmp_path):
    monkeypatch.setattr("penstock_lab.benches.mead.data_file", lambda name: tmp_path / name)


def made_up(folder, part, slow, runs=3):
    """MAP meets every target with three quarters of the CPU; Poisson arrivals are ``slow`` times the target."""
    kept = CellRuns.beside(folder / "mead-spark", runs)
    for cell in cells(part):
        method, target = cell.spec["method"], cell.spec["target"]
        mean = {"static": 2.0, "threshold": 2.8, "map": 0.9 * target}.get(method, slow * target)
        cpu = {"static": 1.0, "map": 0.75}.get(method, 0.6)
        figures = [
            {"mean": mean, "p95": 2 * mean, "cpu": cpu, "changes": 3.0, "spec": dict(cell.spec)}
        ] * runs
        (kept.folder / f"{cell.name}.json").write_text(json.dumps(figures))
    return kept


def held(folder, slow):
    report = ResultsPage("a test", "")
    _claims(report, made_up(folder, "chain", slow), [c for c in cells("chain") if c.load == LONG])
    return [c.holds for c in report.claims]


def test_the_claims_are_that_map_meets_what_poisson_arrivals_miss(tmp_path):
    assert held(tmp_path, slow=1.2) == [True, True, True] * 3
    assert held(tmp_path, slow=0.9) == [True, False, True] * 3


def test_claims_are_made_of_what_was_run_only(tmp_path):
    kept, report = CellRuns(tmp_path), ResultsPage("a test", "")
    static, _, mapped, *_ = cells("branch")
    for cell, mean in ((static, 1.5), (mapped, 2.2)):
        kept.fill([cell], lambda *_, mean=mean: {"mean": mean, "p95": 3.0, "cpu": 0.7, "changes": 1.0}, 1)
    tell(report, kept, cells("branch"), tmp_path)
    assert [c.text for c in report.claims] == [
        "branch, MAP(2), I = 2000: MAP meets 4 s",
        "branch, MAP(2), I = 2000: MAP at 4 s uses less CPU than the static maximum",
    ]
    assert [c.holds for c in report.claims] == [True, False]
    assert "2.2 (1 run) s" in report.claims[0].measured


def test_a_part_leaves_the_other_one_its_tables_claims_and_plot(tmp_path):
    for part in ("chain", "branch", "chain"):
        report = ResultsPage("MEAD on Spark", f"penstock bench mead --part {part}")
        tell(report, made_up(tmp_path, part, 0.9), cells(part), tmp_path)
        write_page(report, tmp_path, "mead-spark", part)
    page = (tmp_path / "mead-spark.md").read_text()
    for part in PARTS:
        for load in (RECORDED, LONG):
            assert page.count(f"## {part.capitalize()}, {load}: mean response requirement") == 1
            for target in TARGETS[part][load]:
                assert page.count(f"| {part}, {load}: MAP meets {target:g} s |") == 1
        assert page.count(f"![mead-spark-{part}](mead-spark-{part}.png)") == 1
        assert page.count(f"| {part}: M/G/1 meets its target |") == 1


def test_the_branch_says_what_it_leaves_out_and_both_how_targets_were_chosen(tmp_path):
    report = ResultsPage("a test", "")
    for part in PARTS:
        tell(report, made_up(tmp_path, part, 1.2), cells(part), tmp_path)
    notes = {table.title.partition(":")[0]: table.note for table in report.tables}
    for part in PARTS:
        assert "chosen beforehand in a simulation" in notes[f"{part.capitalize()}, {LONG}"]
        assert "chosen beforehand" not in notes[f"{part.capitalize()}, {RECORDED}"]
    assert "Left out" in notes[f"Branch, {LONG}"]
    assert "Left out" not in notes[f"Chain, {LONG}"]


def test_reactive_ways_have_no_requirement():
    assert [c.way for c in cells("branch")][:3] == ["static maximum", "threshold", "MAP, 4 s"]


def test_the_plot_has_a_panel_for_every_load(tmp_path):
    path = _plot(tmp_path / "m.png", made_up(tmp_path, "chain", 1.2), cells("chain"))
    assert path.stat().st_size > 5000


def test_a_quick_look_takes_one_load(monkeypatch):
    assert {c.load for c in cells("chain", quick=True)} == {RECORDED}
    monkeypatch.setattr("penstock_lab.benches.mead.data_file", lambda name: None)
    assert {c.load for c in cells("chain", quick=True)} == {c.load for c in cells("chain")} == {LONG}


def test_a_run_that_fails_leaves_the_others_theirs_and_is_told(tmp_path):
    kept, report, own = CellRuns(tmp_path, runs=2), ResultsPage("a test", ""), cells("branch")[:3]
    tried = []

    def measure(cell, number):
        tried.append((cell.way, number))
        if cell.way == "threshold":
            raise PenstockError("The run of threshold failed (no word); run it again on a quieter machine.")
        return {"mean": 1.0}

    attempt_all(report, kept, own, measure)
    assert [len(kept.of(cell)) for cell in own] == [2, 0, 2]
    assert tried.count(("threshold", 0)) == 2  # once in each turn
    assert [(c.text, c.holds) for c in report.claims] == [
        ("branch, MAP(2), I = 2000: every run of threshold comes to its end", False)
    ]
    assert missing(kept, own)
    assert not missing(kept, own[:1])


def test_a_run_that_fails_once_and_then_comes_to_its_end_is_no_claim(tmp_path):
    kept, report, own = CellRuns(tmp_path, runs=2), ResultsPage("a test", ""), cells("branch")[:1]
    outcomes = [PenstockError("It failed."), None, None]

    def measure(cell, number):
        if (error := outcomes.pop(0)) is not None:
            raise error
        return {"mean": 1.0}

    attempt_all(report, kept, own, measure)
    assert len(kept.of(own[0])) == 2
    assert report.claims == []
