"""What the page knows of a run."""

import json
from dataclasses import asdict

import pytest

from page.journals import HEADER, write
from penstock.core.capacity import Capacity
from penstock.core.control_quality import figures
from penstock.core.journal import FileJournal, MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.core.tables import parts_of
from penstock.page.story import Bookmark, Story


def story_of(records, **options):
    return Story(**options).take_all(records)


def told(story, place=None):
    return story.since(place or Bookmark())[0]


@pytest.fixture(scope="module")
def ten_minutes():
    journal = MemoryJournal()
    journal.records[0] |= HEADER
    write(journal, 600)
    journal.warning(300.0, "plant", "Gave up an executor.")
    return journal


def test_the_figures_are_those_of_the_journal(ten_minutes):
    shown = told(story_of(ten_minutes.records))["figures"]
    right = asdict(figures(ten_minutes.tables(), Metric.LATENCY_P95, 0.5))
    assert {k: shown[k] for k in right} == {k: pytest.approx(v) for k, v in right.items()}
    seen = list(ten_minutes.tables().replay())
    held = [sum(s.workers.observed for s in o.stages) for o in seen]
    assert shown["core_seconds"] == pytest.approx(sum(held))
    assert shown["static_peak_core_seconds"] == pytest.approx(max(held) * 600)


def test_title_time_target_and_policy_are_told(ten_minutes):
    shown = told(story_of(ten_minutes.records))
    assert (shown["title"], shown["clock"], shown["target"], shown["metric"]) == (
        "Query best offers", "wall", 0.5, "latency_p95",
    )  # fmt: skip
    assert shown["policies"] == ["Fuzzy"]
    assert shown["whole"]["columns"]["time"][0] == 1_700_000_001.0
    assert shown["warnings"]["rows"] == [{"time": 1_700_000_300.0, "text": "Gave up an executor."}]
    nodes = {node["name"]: node for node in shown["graph"]}
    assert nodes["panes"]["downstream"] == ["windows"]
    assert nodes["panes"]["skew"] == pytest.approx(1.2)


def test_every_change_is_listed_and_neighbours_that_say_the_same_are_one_row(ten_minutes):
    rows = told(story_of(ten_minutes.records))["decisions"]["rows"]
    decisions = [r for r in ten_minutes.records if r["kind"] == "decision"]
    assert sum(row["count"] for row in rows) == len(decisions)
    assert len(rows) < len(decisions)
    assert sum(bool(row["changes"]) for row in rows) == sum(bool(r["changes"]) for r in decisions)


def test_eight_hours_are_no_larger_than_one():
    sizes = []
    for hours in (1, 8):
        journal, story = MemoryJournal(), Story()
        journal.records[0] |= HEADER
        write(journal, hours * 3600, period=2.0)
        story.take_all(journal.records)
        shown = told(story)
        assert len(shown["whole"]["columns"]["time"]) <= 1_000
        assert shown["figures"]["duration"] == pytest.approx(hours * 3600)
        sizes.append(len(json.dumps(shown)))
    assert sizes[1] < 1.5 * sizes[0] < 1_500_000


def test_a_reader_gets_only_what_is_new(ten_minutes):
    story = Story()
    story.take_all(ten_minutes.records[:-20])
    first, place = story.since(Bookmark())
    assert story.since(place) == (None, place)
    story.take_all(ten_minutes.records[-20:])
    news, place = story.since(place)
    assert len(json.dumps(news)) < len(json.dumps(first)) / 10
    assert news["figures"]["observations"] == 600


def test_a_run_that_was_started_again_goes_on_with_a_gap(tmp_path):
    path = tmp_path / "journal.jsonl"
    for start in (1_000.0, 2_000.0):
        with FileJournal(path, {**HEADER, "started": start}) as journal:
            write(journal, 10)
    shown = told(story_of(journal.tables().records))
    times, rates = shown["whole"]["columns"]["time"], shown["whole"]["columns"]["rate"]
    assert times[9:11] == [1_010.0, 2_000.0]
    assert rates[10] is None
    assert times[-1] == 2_010.0
    assert shown["figures"]["duration"] == pytest.approx(20)


def test_a_run_in_virtual_time_counts_in_its_own_seconds():
    journal = MemoryJournal()
    write(journal, 10)
    shown = told(story_of([*journal.records, *journal.records]))
    assert shown["clock"] == "run"
    times = shown["whole"]["columns"]["time"]
    assert times[0] == 1.0
    assert times[-1] == 20.0


def test_a_target_that_is_given_wins(ten_minutes):
    assert told(story_of(ten_minutes.records, target=9.0))["figures"]["violations"] == 0


@pytest.mark.parametrize("header", [HEADER, {"flow": "without a clock"}])
def test_a_journal_in_parts_is_told_like_one_file(tmp_path, header):
    shown = []
    for part_bytes in (1 << 30, 10_000):
        path = tmp_path / f"{part_bytes}.jsonl"
        with FileJournal(path, header, part_bytes=part_bytes) as journal:
            write(journal, 100)
        shown.append(told(story_of(journal.tables().records)))
    assert len(parts_of(path)) > 5
    assert shown[1]["whole"] == shown[0]["whole"]
    assert shown[1] | {"title": ""} == shown[0] | {"title": ""}


def test_each_start_has_a_clock_of_its_own_also_where_its_first_part_is_gone(tmp_path):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, {**HEADER, "started": 1_000.0}, part_bytes=10_000) as journal:
        write(journal, 100)
    with FileJournal(path, {**HEADER, "started": 2_000.0}, part_bytes=10_000, parts=2) as journal:
        write(journal, 100)
    times = told(story_of(journal.tables().records))["whole"]["columns"]["time"]
    assert times[-1] == 2_100.0
    assert 2_050.0 < times[0] < 2_100.0


def test_a_start_without_a_target_has_none(tmp_path):
    path = tmp_path / "journal.jsonl"
    for header in (HEADER, {"query": "best offers", "started": HEADER["started"] + 100}):
        with FileJournal(path, header) as journal:
            write(journal, 10)
    assert "target" not in told(story_of(journal.tables().records))


def test_the_static_peak_is_that_of_the_tile_however_short_it_was():
    journal = MemoryJournal()
    for second in range(1, 4_001):
        stage = StageObservation("a", Capacity.steady(9 if second == 2_000 else 1))
        journal.observation(Observation(float(second), 1.0, (stage,)))
    shown = told(story_of(journal.records))
    assert max(v for v in shown["whole"]["columns"]["cores"] if v is not None) < 9, "a point is a mean"
    assert shown["figures"]["static_peak_cores"] == 9
    assert shown["figures"]["static_peak_core_seconds"] == 9 * shown["figures"]["duration"]
