"""Runs of a benchmark that is made several times."""

import json
import os
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.actuators.processes import started_at
from penstock_lab import cell_runs
from penstock_lab.cell_runs import Cell, CellRuns, Spread, attempt_all, kept_runs, missing, run_alone
from penstock_lab.results import ResultsPage
from waiting import until


def cell(way, **spec):
    return Cell("query", "steps", way, spec)


def told(value):
    return lambda *_: {"delay": value}


def test_a_figure_says_how_many_runs_it_rests_on():
    assert str(Spread.of([1.0, 2.0, 3.0])) == "2 ± 1"
    assert str(Spread.of([1.0, 2.0])) == "1.5 ± 0.71 (2 runs)"
    assert str(Spread.of([2.0])) == "2 (1 run)"
    assert str(Spread.of([792_000.0, 793_000.0, 794_000.0])) == "793,000 ± 1,000"
    assert str(Spread.of([])) == "-"


def test_a_difference_within_the_spread_is_none():
    assert Spread.of([1.0, 1.1]).below(Spread.of([2.0, 2.1]))
    assert not Spread.of([1.0, 2.0]).below(Spread.of([2.0, 3.0]))


def test_every_cell_has_a_run_before_any_has_two_and_what_is_there_is_not_run_again(tmp_path):
    seen = []

    def measure(c, number):
        seen.append((c.way, number))
        return {"delay": 1.0}

    cells = [cell("1 fixed"), cell("Fuzzy")]
    CellRuns(tmp_path).fill(cells, measure, 1)
    CellRuns(tmp_path).fill(cells, measure)
    assert seen == [("1 fixed", 0), ("Fuzzy", 0), ("1 fixed", 1), ("Fuzzy", 1), ("1 fixed", 2), ("Fuzzy", 2)]


def test_runs_of_other_constants_stay_in_the_file_and_do_not_count(tmp_path):
    runs, before, now = CellRuns(tmp_path), cell("1 fixed", seconds=10), cell("1 fixed", seconds=60)
    runs.fill([before], told(9.0))
    assert runs.of(now) == []
    runs.fill([now], told(1.0))
    assert runs.spread(now, "delay").mean == 1.0
    assert runs.spread(before, "delay").mean == 9.0
    assert "not counted: 3 runs" in runs.speed([now])


def test_constants_count_as_they_are_read_back(tmp_path):
    runs, own = CellRuns(tmp_path), cell("2 2", replicas=(2, 2))
    runs.fill([own], told(1.0))
    assert len(runs.of(own)) == 3


def test_runs_of_before_constants_were_kept_count_for_cells_that_have_none(tmp_path):
    (tmp_path / f"{cell('1 fixed').name}.json").write_text(json.dumps([{"delay": 1.0}, {"delay": 3.0}]))
    runs = CellRuns(tmp_path)
    assert runs.spread(cell("1 fixed"), "delay").mean == 2.0
    assert runs.of(cell("1 fixed", seconds=60)) == []


def test_runs_of_a_machine_of_another_speed_are_made_again(tmp_path, monkeypatch):
    own = cell("1 fixed")
    monkeypatch.setattr(cell_runs, "plain_loop", lambda: 0.4)
    CellRuns(tmp_path).fill([own], told(9.0))
    slower = CellRuns(tmp_path, machine=0.5)
    slower.fill([own], told(1.0))
    assert slower.spread(own, "delay").mean == 9.0
    monkeypatch.setattr(cell_runs, "plain_loop", lambda: 0.2)
    faster = CellRuns(tmp_path, machine=0.2)
    faster.fill([own], told(1.0))
    assert faster.spread(own, "delay").mean == 1.0


def test_the_newest_run_tells_which_machine_a_page_is_of(tmp_path):
    runs = [{"ended": 2, "plain_loop": 0.4}, {"ended": 1, "plain_loop": 0.2}]
    (tmp_path / "a.json").write_text(json.dumps(runs))
    assert CellRuns(tmp_path).newest_speed() == 0.4


def test_ways_are_compared_run_by_run(tmp_path):
    """Loads differ much from run to run, ways little and always alike."""
    runs, one, other = CellRuns(tmp_path), cell("Fuzzy"), cell("Threshold")
    runs.fill([one], lambda _, number: {"delay": 10.0 * number + 1.0})
    runs.fill([other], lambda _, number: {"delay": 10.0 * number}, 2)
    assert not runs.spread(other, "delay").below(runs.spread(one, "delay"))
    apart = runs.differences(one, other, "delay")
    assert (apart.mean, apart.runs) == (1.0, 2)
    assert apart.above_nothing
    assert not runs.differences(other, one, "delay").above_nothing


def test_the_speed_of_the_machine_stands_beside_each_run(tmp_path):
    runs, cells = CellRuns(tmp_path), [cell("1 fixed")]
    assert runs.speed(cells) == ""
    runs.fill(cells, told(1.0), 1)
    assert runs.of(cells[0])[0]["plain_loop"] > 0
    assert "ten million numbers" in runs.speed(cells)


def test_the_seconds_of_runs_are_kept_with_them(tmp_path):
    runs, cells = CellRuns(tmp_path), [cell("1 fixed")]
    runs.fill(cells, told(1.0))
    assert CellRuns(tmp_path).wall(cells) == sum(run["wall"] for run in runs.of(cells[0])) > 0


def test_runs_are_kept_beside_the_page_and_none_is_begun_after_its_time(tmp_path):
    late = CellRuns.beside(tmp_path / "kafka", minutes=-1.0)
    late.fill([cell("1 fixed")], told(1.0))
    assert late.of(cell("1 fixed")) == []
    assert (tmp_path / "kafka").is_dir()
    assert late.remembered(cell("rate"), told(2.0))["delay"] == 2.0
    assert late.remembered(cell("rate"), told(3.0))["delay"] == 2.0


def test_a_quick_run_sees_no_full_one_and_leaves_nothing_behind(tmp_path):
    page = tmp_path / "nexmark"
    with kept_runs(page, quick=False) as full:
        full.fill([cell("1 fixed")], lambda *_: {"delay": 1.0}, 1)
    before = {p.name: p.read_text() for p in page.iterdir()}
    with kept_runs(page, quick=True) as quick:
        assert quick.of(cell("1 fixed")) == []
        quick.fill([cell("1 fixed"), cell("Fuzzy")], lambda *_: {"delay": 2.0})
        assert len(quick.of(cell("Fuzzy"))) == 1
    assert not quick.folder.exists()
    assert {p.name: p.read_text() for p in page.iterdir()} == before


def test_a_run_that_fails_leaves_the_others_theirs_and_is_told(tmp_path):
    kept, report = CellRuns(tmp_path, runs=2), ResultsPage("a test", "")
    own = [cell("1 fixed"), cell("Threshold"), cell("Fuzzy")]
    tried = []

    def measure(one, number):
        tried.append((one.way, number))
        if one.way == "Threshold":
            raise PenstockError("The run failed (no word); run it again on a quieter machine.")
        return {"delay": 1.0}

    attempt_all(report, kept, own, measure)
    assert [len(kept.of(one)) for one in own] == [2, 0, 2]
    assert tried.count(("Threshold", 0)) == 2  # once in each turn
    (claim,) = report.claims
    assert not claim.holds
    assert "every run of Threshold comes to its end" in claim.text
    assert missing(kept, own)
    assert not missing(kept, own[:1])


def test_a_run_that_fails_once_and_then_comes_to_its_end_is_no_claim(tmp_path):
    kept, report, own = CellRuns(tmp_path, runs=2), ResultsPage("a test", ""), [cell("1 fixed")]
    outcomes = [PenstockError("It failed."), None, None]

    def measure(*_):
        if (error := outcomes.pop(0)) is not None:
            raise error
        return {"delay": 1.0}

    attempt_all(report, kept, own, measure)
    assert len(kept.of(own[0])) == 2
    assert report.claims == []


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A module of the given text that a run alone can start."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    def written(text):
        (tmp_path / "some_run.py").write_text("import json, os, subprocess, sys, time\n" + text)
        return "some_run"

    return written


def test_a_run_alone_gives_the_figures_that_it_prints_last(program):
    module = program("print('words')\nprint(json.dumps({'delay': json.loads(sys.argv[1])['rate']}))")
    assert run_alone(module, {"rate": 5}) == {"delay": 5}


def test_a_run_alone_that_fails_says_why(program):
    with pytest.raises(RuntimeError, match="no such load"):
        run_alone(program("raise ValueError('no such load')"), {})


def test_a_run_alone_that_does_not_end_is_ended_with_all_that_it_started(program, tmp_path, monkeypatch):
    """The child has a group of its own, as Spark's Python workers have."""
    pids = tmp_path / "pids"
    module = program(
        "child = subprocess.Popen(['sleep', '600'], process_group=0)\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    monkeypatch.setattr(cell_runs, "COMING_AND_GOING", 3.0)
    with pytest.raises(RuntimeError, match="did not end within"):
        run_alone(module, {"seconds": 0.0})
    for pid in map(int, Path(pids).read_text().split()):
        until(lambda pid=pid: started_at(pid) is None, "the end of a process")


def test_a_page_is_told_anew_from_the_most_runs_that_go_together(tmp_path):
    """By the newest one, a fast hour at the end left out what the page had been made of."""
    for way, speeds in (("a", [0.1, 0.12, 0.14]), ("b", [0.11, 0.09, 0.3])):
        (tmp_path / f"query--{way}.json").write_text(json.dumps([{"plain_loop": s} for s in speeds]))
    usual = CellRuns(tmp_path).usual_speed("query")
    assert usual / 1.5 <= 0.09 < 0.14 <= usual * 1.5 < 0.3
