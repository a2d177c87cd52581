"""The page in a real browser; skipped where there is none (``apt-get install chromium`` is enough)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from page import axe
from page.journals import HEADER, write
from penstock.cli import app
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
    assert "newest" not in told
    assert "worst" in tab.inner_text("#panel-lag .u-legend")
    told = tab.inner_text("#panel-lag .u-legend")
    assert " s" in told
    assert "newest" not in told, "the cursor is shared"
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


def test_without_a_mouse_the_newest_values_and_all_of_the_graph_stand_as_text(tab, run):
    write(run, 120)
    tab.goto(run.server.address)
    seen(tab, "document.body.dataset.points == 120")
    newest = "[mirror.whole.columns.rate.at(-1)].map(v => number(v, 'rows/s'))[0]"
    for _ in range(2):
        told = tab.inner_text("#panel-arrivals .u-legend")
        assert "(newest)" in told
        assert tab.evaluate(newest) in told
        assert "%" in tab.inner_text("#panel-load .u-legend")
        tab.hover("#panel-arrivals .u-over")
        tab.mouse.move(0, 0)
    graph = tab.get_attribute("#graph svg", "aria-label")
    for figure in ("rows/s", "busy", "key skew", "on to windows"):
        assert figure in graph


def test_the_static_peak_is_in_sight_and_a_run_of_days_has_dates(tab, run):
    write(run, 90_000, period=30.0)
    tab.goto(run.server.address)
    seen(tab, "document.body.dataset.points > 100")
    peak = tab.evaluate("mirror.facts.figures.static_peak_cores")
    assert tab.evaluate("plots.get('cores').peak") == peak
    assert tab.evaluate("plots.get('cores').plot.scales.y.max") > peak
    tab.click("#show-recent")
    assert tab.evaluate("plots.get('cores').peak") == peak
    for place in ("#panel-arrivals .u-legend", "#decisions tbody"):
        assert re.search(r"2023-11-1\d \d\d:\d\d:\d\d", tab.inner_text(place)), place


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


@pytest.mark.skipif(not PICTURES, reason="PENSTOCK_PICTURES names no folder: make pictures")
def test_the_pictures_of_the_documentation_are_of_a_real_run(tab, tmp_path):
    """A minute of the demo as ``make run`` starts it: its page while it runs, its report and its picture after it."""
    folder = tmp_path / "demo"
    call = ["run", "demo", "--seconds", "60", "--output", str(folder), "--page", "127.0.0.1:0"]
    child = subprocess.Popen(
        [sys.executable, "-m", "penstock", *call], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said = next(line for line in child.stdout if "http://" in line)
        tab.goto(said[said.index("http://") :].split()[0])
        shown = "document.body.dataset.points > 0 && mirror.whole.columns.time.at(-1) - mirror.whole.columns.time[0]"
        until(lambda: tab.evaluate(shown) > 45, "most of a minute of the run", every=0.5)
        picture(tab, "page.png")
        rest = child.stdout.read()
    finally:
        child.terminate()
    assert child.wait(PATIENCE) == 0, rest
    sys.stdout.write(rest)  # its last sentence belongs under the picture in README
    write_report(folder / "checkpoint" / "journal.jsonl", tmp_path / "report.html")
    tab.goto((tmp_path / "report.html").as_uri())
    seen(tab, "document.body.dataset.points > 0")
    picture(tab, "report.png")
    shutil.copy(folder / "run.png", Path(PICTURES) / "demo.png")


def live_page(tmp_path, run):
    write(run, 300)
    return run.server.address


def report_page(tmp_path, run):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, HEADER) as journal:
        write(journal, 300)
        journal.warning(300.0, "a test", "something to look at")
    write_report(path, tmp_path / "report.html")
    return (tmp_path / "report.html").as_uri()


def comparison_page(tmp_path, run):
    page = tmp_path / "compare.html"
    call = ["simulate", "--trace", "poisson:rate=300", "--seconds", "60", "-p", "Ds2", "-p", "Static"]
    assert CliRunner().invoke(app, [*call, "--html", str(page)]).exit_code == 0
    return page.as_uri()


def site_page(tmp_path, run):
    if not SITE.exists():
        pytest.skip("the site has not been built: make docs")
    return SITE.as_uri()


#: Who is looked at, and a condition that holds once it is drawn.
LOOKED_AT = {
    "live page": (live_page, "document.body.dataset.points == 300"),
    "report": (report_page, "document.body.dataset.points == 300"),
    "comparison": (comparison_page, "document.images[0].complete"),
    "first page of the site": (site_page, "document.readyState === 'complete'"),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_nothing(browser, run, tmp_path, name):
    """In light and dark; rules of WCAG 2.1 A and AA, and what axe calls best practice."""
    try:
        script = axe.script()
    except axe.Unavailable as why:
        pytest.skip(f"axe-core is not to be had: {why}")
    address, drawn = LOOKED_AT[name][0](tmp_path, run), LOOKED_AT[name][1]
    context = browser.new_context(bypass_csp=True, viewport={"width": 1100, "height": 900})
    found = {}
    try:
        broken = context.new_page()
        broken.set_content("<body style='color: #ccc; background: #fff'>pale<img src='data:,'></body>")
        broken.add_script_tag(path=script)
        assert {"color-contrast", "image-alt"} <= {v[1] for v in broken.evaluate(axe.ASK)["violations"]}
        for scheme in ("light", "dark"):
            page = context.new_page()
            page.set_default_timeout(LONG)
            page.emulate_media(color_scheme=scheme)
            page.goto(address)
            seen(page, drawn)
            page.add_script_tag(path=script)
            found[scheme] = page.evaluate(axe.ASK)
            page.close()
    finally:
        context.close()
    sys.stdout.write(f"{name}: {json.dumps(found)}\n")  # pytest -rP shows it
    for scheme, result in found.items():
        assert result["violations"] == [], f"{scheme}: {json.dumps(result['violations'], indent=1)}"
        assert result["passed"] > 10
