"""What the pages name is there: paths of the repository, and links between pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md")),
]

_PATH = re.compile(r"(?<![\w/.])((?:src|lab|tests|docs|examples|scripts)/[\w./-]*\w/?)")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


#: Pages that ``make docs`` makes from the code.
_MADE = ("reference/commands.md", "reference/python.md")


def missing(page: Path, text: str) -> list[str]:
    """What a page names and the repository does not have."""
    links = [
        (link, page.parent / link) for link in _LINK.findall(text) if "://" not in link and link not in _MADE
    ]
    paths = [(path, ROOT / path) for path in _PATH.findall(_LINK.sub("", text))]
    return sorted({name for name, place in [*links, *paths] if not place.exists()})


@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_link_of_a_page_exists(page):
    assert missing(ROOT / page, (ROOT / page).read_text()) == []


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    named = _LINK.findall((folder / "README.md").read_text())
    assert sorted(p.name for p in folder.glob("0*.md")) == sorted(n for n in named if n.startswith("0"))


def test_a_path_or_link_that_is_nowhere_is_found():
    text = "See `src/penstock/core`, `src/penstock/no_such.py` and [a page](no-such.md), [another](engines.md#resident-workers)."
    assert missing(ROOT / "docs" / "page.md", text) == ["no-such.md", "src/penstock/no_such.py"]
