"""What benchmarks return."""

import json
from math import inf, nan

from rich.console import Console

from penstock_lab.judging import near
from penstock_lab.results import ResultsPage, Table


def example() -> ResultsPage:
    report = ResultsPage("Title", "penstock bench x", seconds=3.0)
    report.tables.append(
        Table("Numbers", ("name", "value"), [("a|b", 0.12345), ("b", 12345.6), ("c", inf), ("d", nan)])
    )
    report.claim("fast", ">= 2", "3", True)
    report.claim("small", "<= 1", "4", False)
    report.claim("close", "45 %", "40 %", near((0.40, 0.45), form=".0%"), fit=True)
    report.claim("far", "45 %", "29 %", near((0.29, 0.45), form=".0%"), fit=True)
    return report


def test_a_page_holds_tables_and_what_became_of_each_claim():
    page = example().as_markdown()
    assert "| b | 12,346 |" in page
    assert "a\\|b" in page
    assert "| c | inf |" in page
    assert "| fast | >= 2 | >= 2 | 3 | pass |" in page
    assert "| small | <= 1 | <= 1 | 4 | differs |" in page


def test_a_page_prints_the_bound_and_says_what_was_fitted():
    page = example().as_markdown()
    assert "| close | 45 % | 34% to 56% | 40 % | fit |" in page
    assert "| far | 45 % | 34% to 56% | 29 % | differs |" in page
    assert "*fit*:" in page


def test_json_is_plain():
    told = json.loads(json.dumps(example().as_json()))
    assert told["tables"][0]["rows"][0] == {"name": "a|b", "value": 0.12345}
    assert [c["verdict"] for c in told["claims"]] == ["pass", "differs", "fit", "differs"]
    assert [c["bound"] for c in told["claims"]] == [">= 2", "<= 1", "34% to 56%", "34% to 56%"]


def test_the_terminal_shows_all_of_it():
    console = Console(record=True, width=100)
    example().print(console)
    text = console.export_text()
    assert "differs" in text
    assert "Numbers" in text
