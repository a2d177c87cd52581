"""Pages of benchmarks that are run a part at a time."""

import numpy as np
import typer
from typer.testing import CliRunner

from penstock_lab.benches import models
from penstock_lab.cli import bench
from penstock_lab.part_pages import write_page
from penstock_lab.results import ResultsPage, Table


def report(part, figure):
    made = ResultsPage("Bench", f"penstock bench x --part {part}", seconds=5.0)
    made.tables.append(
        Table(f"Table of {part}", ("what", "rows/s"), [("ours", np.float64(figure))], "A note.")
    )
    made.claim(f"Claim of {part}", "at least 1", str(figure), figure >= 1)
    return made


def test_the_page_has_the_parts_run_so_far_and_a_part_run_again_takes_the_place_of_its_former_self(tmp_path):
    write_page(report("one", 2.0), tmp_path, "x", "one")
    write_page(report("two", 3.0), tmp_path, "x", "two")
    write_page(report("one", 0.5), tmp_path, "x", "one")
    page = (tmp_path / "x.md").read_text()
    assert "Made by `penstock bench x --part one` in 5 s, `penstock bench x --part two` in 5 s." in page
    assert page.count("Table of one") == 1
    assert "| ours | 0.5 |" in page
    assert "| Claim of one | at least 1 | at least 1 | 0.5 | differs |" in page
    assert "| Claim of two | at least 1 | at least 1 | 3.0 | pass |" in page
    whole = report("all", 4.0)
    write_page(whole, tmp_path, "x", None)
    assert (tmp_path / "x.md").read_text() == whole.as_markdown()
    assert not (tmp_path / "x.parts.json").exists()


def test_rows_of_one_table_that_parts_share_stand_together(tmp_path):
    for part, figure in (("one", 2.0), ("two", 3.0)):
        made = ResultsPage("Bench", f"penstock bench x --part {part}")
        made.tables.append(Table("Rates", ("what", "rows/s"), [(part, figure)], "A note."))
        write_page(made, tmp_path, "x", part)
    page = (tmp_path / "x.md").read_text()
    assert page.count("## Rates") == page.count("A note.") == 1
    assert "| one | 2 |\n| two | 3 |" in page


def test_models_on_unseen_windows_have_a_page_of_their_own_and_leave_that_of_the_models(
    tmp_path, monkeypatch
):
    app = typer.Typer()
    bench.register(app)
    monkeypatch.setattr(models, "run", lambda quick, folder, part: report(part, 2.0))
    (tmp_path / "models.md").write_text("speed and accuracy")
    done = CliRunner().invoke(app, ["models", "--part", "unseen", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "models.md").read_text() == "speed and accuracy"
    assert "Table of unseen" in (tmp_path / "models-unseen.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models-unseen.md", "models.md"]
