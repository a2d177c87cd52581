"""The page as one document: served in parts beside a run, or written as one file with the data inside."""

import json
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from penstock.core.control_quality import ControlQuality
from penstock.core.errors import PenstockError
from penstock.core.journal import read
from penstock.page.follow import unreadable
from penstock.page.story import Bookmark, Story

#: Parts of the page, in the order in which it needs them.
STYLES = ("uPlot.min.css", "page.css")
SCRIPTS = ("uPlot.iife.min.js", "mirror.js", "panels.js", "graph.js", "page.js")


@cache
def part(name: str) -> str:
    """The text of one part."""
    return (files("penstock.page") / "static" / name).read_text(encoding="utf-8")


def live_page() -> str:
    """The page that asks its server for the data."""
    styles = "".join(f'<link rel="stylesheet" href="/{name}">' for name in STYLES)
    scripts = "".join(f'<script src="/{name}"></script>' for name in SCRIPTS)
    return _filled("Penstock", styles, scripts)


def whole_page(story: Story) -> str:
    """The page with the data inside, which asks nobody."""
    data, _ = story.since(Bookmark())
    assert data is not None
    styles = "".join(f"<style>{part(name)}</style>" for name in STYLES)
    # A "<" inside JSON could end the element it stands in.
    told = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    scripts = f'<script type="application/json" id="data">{told}</script>' + "".join(
        f"<script>{part(name)}</script>" for name in SCRIPTS
    )
    return _filled(f"{data['title']} - Penstock", styles, scripts)


def write_report(journal: Path, page: Path, target: float | None = None) -> ControlQuality:
    """Read a journal, write the page as one file, return its SASO figures."""
    return write_page(story_of(journal, target), journal, page)


def write_page(story: Story, journal: Path, page: Path) -> ControlQuality:
    """Write the page of a journal that has been read; its SASO figures."""
    quality = quality_of(story, journal)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(whole_page(story), encoding="utf-8")
    except OSError as error:
        raise PenstockError(f"Cannot write {page} ({error.strerror}); choose another place.") from None
    return quality


def quality_of(story: Story, journal: Path) -> ControlQuality:
    """The SASO figures of a journal that has been read; one without observations is refused."""
    quality = story.quality.result()
    if not quality.observations:
        raise PenstockError(f"The journal {journal} has no observations yet, so there is nothing to report.")
    return quality


def story_of(journal: Path, target: float | None = None) -> Story:
    """What a journal on disk tells."""
    tables = read(journal)
    story = Story(name_of(journal), target).take_all(tables.records)
    if tables.torn:
        story.warn(unreadable(tables.torn))
    story.told("recorded")
    return story


def name_of(journal: Path) -> str:
    """What a run is called that has no name of its own."""
    return f"Run {journal.absolute().parent.name}/{journal.name}"


def _filled(title: str, styles: str, scripts: str) -> str:
    text: Any = part("page.html")
    for mark, value in (
        ("{{title}}", escape(title)),
        ("{{styles}}", styles),
        ("{{scripts}}", scripts),
    ):
        text = text.replace(mark, value)
    return str(text)
