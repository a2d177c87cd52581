"""The page in a real browser; skipped where there is none (``apt-get install chromium`` is enough)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from page.journals import HEADER, write
from penstock.core.journal import FileJournal, MemoryJournal
from penstock.page.document import write_report
from penstock.page.server import PageServer
from penstock.page.story import Story
from waiting import PATIENCE, until

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

LONG = PATIENCE * 1000  # Playwright counts in milliseconds

#: Where pictures for the documentation go, if anywhere.
PICTURES = os.environ.get("PENSTOCK_PICTURES")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], timeout=LONG)
        yield started
        started.close()


@pytest.fixture
def tab(browser):
    """A tab that fails the test on any error in the page, and on any request to elsewhere."""
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.set_default_timeout(LONG)
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.asked = asked
    yield page
    page.close()
    assert not errors


@pytest.fixture
def run():
    """A run that a test writes to, and its page."""

    class Run(MemoryJournal):
        def __init__(self):
            super().__init__()
            self.story = Story()
            self.story.take({"kind": "run", **HEADER})
            self.paused = False
            self.server = PageServer("127.0.0.1:0", self.story, self).start()

        def put(self, record):
            self.story.take(record)

        def pause(self):
            self.paused = True

        def resume(self):
            self.paused = False

    made = Run()
    yield made
    made.server.close()


def seen(tab, condition):
    """Wait until a condition holds in the page; its policy on scripts keeps Playwright's own waiting out."""
    until(lambda: tab.evaluate(condition), condition)


def points(tab):
    return int(tab.evaluate("document.body.dataset.points ?? 0"))


def panels(tab):
    return set(
        tab.evaluate("[...document.querySelectorAll('.panel:not([hidden]) h2')].map(h => h.textContent)")
    )


def picture(tab, name, full_page=True):
    if PICTURES:
        tab.screenshot(path=str(Path(PICTURES) / name), full_page=full_page)


def test_the_page_follows_a_run_through_a_reload_a_pause_and_the_end_of_its_driver(tab, run):
    write(run, 30)
    tab.goto(run.server.address)
    seen(tab, "document.body.dataset.points == 30")
    assert tab.title() == "Query best offers - Penstock"
    assert panels(tab) >= {
        "Arrivals, whole run", "Arrivals, last two minutes", "Time to answer", "Workers", "Busy share of each worker",
        "Splitting", "Slack and late rows", "Cores held, against the static peak", "Decisions on the time line",
    }  # fmt: skip
    assert "panes" in tab.inner_text("#graph")
    write(run, 30, begin=30)
    seen(tab, "document.body.dataset.points == 60")
    tab.reload()
    seen(tab, "document.body.dataset.points == 60")
    assert "<seen>" in tab.inner_text("#decisions"), "words are shown, not run as code"
    tab.click("#pause")
    seen(tab, "document.getElementById('state').dataset.state === 'paused'")
    assert run.paused
    tab.click("#pause")
    seen(tab, "document.getElementById('state').dataset.state === 'running'")
    picture(tab, "page.png")
    run.server.close()
    seen(tab, "['ended', 'lost'].includes(document.getElementById('state').dataset.state)")
    assert points(tab) == 60, "what was seen stays"
    assert all(url.startswith("http://127.0.0.1:") for url in tab.asked)


def test_hovering_tells_the_values_and_dragging_zooms_all_plots(tab, run):
    write(run, 120)
    tab.goto(run.server.address)
    seen(tab, "document.body.dataset.points == 120")
    tab.hover("#panel-arrivals .u-over")
    told = tab.inner_text("#panel-arrivals .u-legend")
    assert "rows/s" in told
    assert "worst" in tab.inner_text("#panel-lag .u-legend")
    assert " s" in tab.inner_text("#panel-lag .u-legend"), "the cursor is shared"
    over = tab.locator("#panel-lag .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    tab.mouse.move(box["x"] + 100, box["y"] + 50)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 300, box["y"] + 50, steps=5)
    tab.mouse.up()
    ranges = "['arrivals','workers'].map(id => plots.get(id).plot.scales.x).map(s => s.max - s.min)"
    until(lambda: max(tab.evaluate(ranges)) < 100, "all plots zoomed")
    for id_ in tab.evaluate("[...plots.keys()]"):
        if id_ != "timeline":
            assert tab.evaluate(f"plots.get('{id_}').plot.scales.y.min") == 0, "no axis below zero"


def test_eight_hours_do_not_grow_in_the_browser(tab, run):
    write(run, 3_600, period=2.0)
    tab.goto(run.server.address)
    seen(tab, "document.body.dataset.points > 100")
    measure = "JSON.stringify(mirror).length"
    hour = tab.evaluate(measure)
    for begin in range(1_800, 14_400, 1_800):
        write(run, 3_600, begin=begin, period=2.0)
    seen(tab, "mirror.facts.figures.observations === 14400")
    assert tab.evaluate("mirror.facts.figures.duration") == 8 * 3600
    assert tab.evaluate(measure) < 2 * hour
    assert points(tab) <= 1_000


def test_the_report_is_the_same_page_with_the_data_inside(tab, tmp_path):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, HEADER) as journal:
        write(journal, 300)
    write_report(path, tmp_path / "report.html")
    tab.goto((tmp_path / "report.html").as_uri())
    assert points(tab) == 300
    assert tab.inner_text("#state") == "from the journal"
    assert "missed target" in tab.inner_text("#tiles")
    assert "SASO" in tab.inner_text("#words")
    assert tab.asked == [(tmp_path / "report.html").as_uri()], "one file, and nothing else is asked for"
    picture(tab, "report.png")


def test_penstock_watch_shows_a_journal_that_grows(tab, tmp_path):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, HEADER) as journal:
        write(journal, 20)
        child = subprocess.Popen(
            [sys.executable, "-m", "penstock", "watch", str(path), "--page", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            address = child.stdout.readline().split(" at ")[1].split()[0]
            tab.goto(address)
            seen(tab, "document.body.dataset.points == 20")
            write(journal, 10, begin=20)
            seen(tab, "document.body.dataset.points == 30")
        finally:
            child.terminate()
            child.wait(PATIENCE)


SITE = Path(__file__).parents[2] / "build" / "site" / "index.html"


@pytest.mark.skipif(not SITE.exists(), reason="the site has not been built: make docs")
def test_the_first_page_of_the_site_shows(tab):
    tab.goto(SITE.as_uri())
    assert "Penstock" in tab.title()
    tab.get_by_role("link", name="Tutorial").first.wait_for()
    picture(tab, "site.png", full_page=False)


AXE = os.environ.get("PENSTOCK_AXE")


@pytest.mark.skipif(AXE is None, reason="PENSTOCK_AXE names no axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tab, tmp_path, scheme):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, HEADER) as journal:
        write(journal, 300)
    write_report(path, tmp_path / "report.html")
    tab.emulate_media(color_scheme=scheme)
    tab.goto((tmp_path / "report.html").as_uri())
    tab.add_script_tag(path=AXE)
    found = tab.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
    assert found == [], json.dumps(found, indent=1)
