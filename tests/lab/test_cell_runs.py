"""Runs of a benchmark that is made several times."""

from penstock_lab.cell_runs import Cell, CellRuns, Spread, kept_runs


def cell(way):
    return Cell("query", "steps", way)


def test_a_figure_says_how_many_runs_it_rests_on():
    assert str(Spread.of([1.0, 2.0, 3.0])) == "2 ± 1"
    assert str(Spread.of([1.0, 2.0])) == "1.5 ± 0.71 (2 runs)"
    assert str(Spread.of([2.0])) == "2 (1 run)"
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


def test_the_speed_of_the_machine_stands_beside_each_run(tmp_path):
    runs, cells = CellRuns(tmp_path), [cell("1 fixed")]
    assert runs.speed(cells) == ""
    runs.fill(cells, lambda *_: {"delay": 1.0}, 1)
    assert runs.of(cells[0])[0]["plain_loop"] > 0
    assert "ten million numbers" in runs.speed(cells)


def test_runs_are_kept_beside_the_page_and_none_is_begun_after_its_time(tmp_path):
    late = CellRuns.beside(tmp_path / "kafka", minutes=-1.0)
    late.fill([cell("1 fixed")], lambda *_: {"delay": 1.0})
    assert late.of(cell("1 fixed")) == []
    assert (tmp_path / "kafka").is_dir()


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
