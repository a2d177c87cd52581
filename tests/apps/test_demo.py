"""The demo: its stream fits the machine, its table and its picture tell the story."""

import socket

import pytest
from rich.console import Console

from page.journals import HEADER, write
from penstock.apps import demo
from penstock.apps.run_picture import draw_run, headline
from penstock.apps.skyline import Board
from penstock.core.journal import MemoryJournal
from penstock.traffic.spec import StreamSpec


def test_the_rate_between_bursts_is_one_that_the_source_and_one_worker_can_do():
    assert 1_000 <= demo.calm_rate() <= 100_000


def test_the_stream_more_than_doubles_in_each_burst():
    shape = ";".join(f"flash:at={at:g},peak={demo.PEAK},rise=2,decay=4" for at in demo.BURSTS)
    stream = StreamSpec.parse({"rate": "1000", "shape": shape, "seconds": "40"}).build()
    arrivals = [t for batch in stream.batches() for t in batch.column("arrival").to_pylist()]
    calm, burst = (sum(a <= t < a + 3 for t in arrivals) for a in (8, demo.BURSTS[0] + 2))
    assert burst > 1.8 * calm


def test_a_port_that_is_taken_gives_way_to_a_free_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert demo.free_address(f"127.0.0.1:{port}") == "127.0.0.1:0"
    assert demo.free_address(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"
    assert demo.free_address("") == ""


@pytest.fixture(scope="module")
def tables():
    journal = MemoryJournal()
    journal.records[0] |= HEADER
    write(journal, 300)
    return journal.tables()


def test_the_picture_and_its_sentence_come_from_the_journal(tables, tmp_path):
    assert draw_run(tables, tmp_path / "run.png", skip=10.0).stat().st_size > 10_000
    said = headline(tables, 10.0)
    assert "2 to 4 workers" in said or "2 to 5 workers" in said, said
    assert "fewer worker-seconds" in said
    assert "95 % within 0." in said


def test_time_counts_from_the_first_answer_and_a_line_comes_every_second(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("penstock.apps.skyline.time.monotonic", lambda: now[0])
    board = Board(30.0)
    board._console = Console(force_terminal=False, width=200)
    batch = {
        "rows": 100, "interval": 0.1, "pane_workers": 2, "window_workers": 1, "utilisation_panes": 0.5,
        "utilisation_windows": 0.25, "splitting": 1.5, "answer_lag": 0.125, "dropped_share": 0.01, "windows": 1,
        "answer_rows": 7.0,
    }  # fmt: skip
    board.take(batch | {"windows": 0})
    assert board.end == float("inf"), "the engine still starts"
    for _ in range(17):
        board.take(batch)
        now[0] += 0.125
    assert board.end == 130.0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[-1].split() == ["2", "1,000", "2", "+", "1", "50%", "1.5", "0.12", "s", "1.00%", "8", "7"]
