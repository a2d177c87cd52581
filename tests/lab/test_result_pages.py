"""The pages of results: what they print is what is judged, and fits are called fits."""

from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
#: Decision 52: page -> how claims begin that rest on a constant chosen with their figure in view.
FITS = {
    "ppq": ("Fig. 8a", "Fig. 8c-f", "Fig. 8f", "Fig. 8g", "Fig. 9", "Fig. 17"),
    "elastic-ppq": ("Fig. 9", "Fig. 11: threads that remove"),
    "joker": ("Fig. 5: together |", *(f"Fig. {n}:" for n in (10, 11, 14, 15, 18, 19, 20))),
    "mead": ("Headline: with at most 65 %", "The other path"),
}


def claims(page: str) -> list[list[str]]:
    """Cells of the claims of a page."""
    text = (RESULTS / f"{page}.md").read_text()
    lines = text.partition("| claim | expected |")[2].splitlines()[2:]
    rows = [line for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]


PAGES = sorted(p.stem for p in RESULTS.glob("*.md") if "| claim | expected |" in p.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_every_claim_says_what_it_is_judged_by_and_what_became_of_it(page):
    assert "| claim | expected | judged by | measured | |" in (RESULTS / f"{page}.md").read_text()
    for cells in claims(page):
        assert len(cells) == 5, cells
        assert cells[-1] in ("pass", "fit", "differs"), cells


@pytest.mark.parametrize("page", FITS)
def test_what_was_fitted_does_not_pass(page):
    about = [
        c for c in claims(page) if f"{c[0]} |".startswith(FITS[page]) or (page == "mead" and "SYNT" in c[0])
    ]
    assert len(about) >= len(FITS[page])
    assert [c for c in about if c[-1] == "pass"] == []
