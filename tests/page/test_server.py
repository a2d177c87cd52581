"""The page's server: who may look, who may pause, what a reader gets."""

import json
import os
import time
import urllib.error
import urllib.request
import uuid
from threading import Event, Thread

import pytest

from page.journals import HEADER, write
from penstock.core.controller import Controller
from penstock.core.errors import PenstockError
from penstock.core.journal import FileJournal, MemoryJournal, read
from penstock.core.store_journal import StoreJournal
from penstock.core.stores import StorePath
from penstock.core.tables import parts_of
from penstock.page.address import parse_address
from penstock.page.document import SCRIPTS, STYLES
from penstock.page.follow import JournalFollower
from penstock.page.live import serve_page
from penstock.page.server import PageServer
from penstock.page.story import Bookmark, Story
from penstock.policies import Static
from penstock.testing import ScriptedPlant
from waiting import PATIENCE, until


class Switch:
    paused = False

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False


@pytest.fixture
def story():
    journal = MemoryJournal()
    journal.records[0] |= HEADER
    write(journal, 60)
    return Story().take_all(journal.records)


@pytest.fixture
def serve():
    served = []

    def start(address, *given):
        served.append(PageServer(address, *given).start())
        return served[-1]

    yield start
    for server in served:
        server.close()


def ask(server, path, method="GET", token=True, host=None):
    address = f"http://127.0.0.1:{server.port}{path}" + (f"?token={server.token}" if token else "")
    request = urllib.request.Request(address, method=method, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.read().decode()


def refused(*arguments, **options):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(*arguments, **options)
    return error.value.code


def test_on_loopback_anybody_may_look_and_only_the_token_may_pause(serve, story):
    switch = Switch()
    server = serve("127.0.0.1:0", story, switch)
    assert "Waiting for the first figures" in ask(server, "/", token=False)
    assert json.loads(ask(server, "/data", token=False))["title"] == "Query best offers"
    assert refused(server, "/pause", "POST", token=False) == 403
    assert not switch.paused
    ask(server, "/pause", "POST")
    assert switch.paused
    assert json.loads(ask(server, "/data"))["state"] == "paused"
    ask(server, "/resume", "POST")
    assert not switch.paused
    assert refused(server, "/pause") == 405


def test_elsewhere_everything_but_the_code_needs_the_token(serve, story):
    server = serve("0.0.0.0:0", story, Switch())
    for path in ("/", "/data", "/events"):
        assert refused(server, path, token=False) == 403
    assert json.loads(ask(server, "/data"))["title"] == "Query best offers"
    assert server.token in server.address


def test_another_sites_name_for_this_machine_is_refused(serve, story):
    """Or a page from elsewhere, whose name points to loopback, could read the run."""
    assert refused(serve("127.0.0.1:0", story), "/data", token=False, host="evil.example") == 403


def test_nothing_is_loaded_from_elsewhere(serve, story):
    server = serve("127.0.0.1:0", story)
    page = ask(server, "/", token=False)
    assert "http://" not in page
    assert "https://" not in page
    for name in (*STYLES, *SCRIPTS):
        assert f'"/{name}"' in page
        assert ask(server, f"/{name}", token=False)


def test_a_reader_gets_all_there_is_then_what_is_new_then_the_end(serve):
    story = Story()
    server = serve("127.0.0.1:0", story)
    heard, first = [], Event()

    def listen():
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/events", timeout=PATIENCE) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    heard.append(json.loads(line[6:]))
                    first.set()

    thread = Thread(target=listen)
    thread.start()
    assert first.wait(PATIENCE)
    journal = MemoryJournal()
    write(journal, 10)
    story.take_all(journal.records)
    until(lambda: heard[-1]["figures"]["observations"] == 10, "the new observations")
    server.close()
    thread.join(PATIENCE)
    assert heard[-1]["state"] == "ended"


def test_a_page_beside_a_controller_shows_its_journal_and_pauses_it(tmp_path):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, HEADER) as journal:
        write(journal, 30)
    observations = list(journal.tables().replay())
    with FileJournal(path, HEADER) as journal:
        controller = Controller(ScriptedPlant(observations), Static(), journal=journal)
        server = serve_page("127.0.0.1:0", controller)
        try:
            controller.step()
            shown = json.loads(ask(server, "/data"))
            assert shown["figures"]["observations"] == 31, "those of the earlier start are there too"
            ask(server, "/pause", "POST")
            assert controller.paused
            controller.resume()
            assert json.loads(ask(server, "/data"))["state"] == "running"
        finally:
            server.close()


def test_a_growing_journal_is_followed_and_a_line_in_writing_waits(tmp_path):
    path, story = tmp_path / "journal.jsonl", Story()
    follower = JournalFollower(path, story)
    with pytest.raises(PenstockError, match="cannot be read"):
        follower.look()
    with FileJournal(path, HEADER) as journal:
        write(journal, 5)
        assert follower.look() > 5
        whole = path.read_bytes()
        path.write_bytes(whole + b'{"kind":"warning","time":5.0,"te')
        assert follower.look() == 0
        path.write_bytes(whole + b'{"kind":"warning","time":5.0,"text":"x"}\nno record\n')
        assert follower.look() == 1
    follower.close()
    said = [row["text"] for row in story.since(Bookmark())[0]["warnings"]["rows"]]
    assert said == ["x", "The journal has 1 unreadable line, left out here."]


def beside(journal):
    """What the page beside a run with that journal begins with."""
    server = serve_page("127.0.0.1:0", Controller(ScriptedPlant([]), Static(), journal=journal))
    try:
        return json.loads(ask(server, "/data"))
    finally:
        server.close()


def test_only_the_newest_parts_of_a_long_journal_are_read_before_a_run(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, HEADER, part_bytes=20_000) as journal:
        write(journal, 200)
    assert len(parts_of(path)) > 5
    monkeypatch.setattr("penstock.page.live.MOST_HISTORY", 50_000)
    with FileJournal(path, HEADER) as journal:
        shown = beside(journal)
    assert 10 < shown["figures"]["observations"] < 100
    assert HEADER["started"] + 200 in shown["whole"]["columns"]["time"]
    assert "leave out the older parts" in shown["warnings"]["rows"][-1]["text"]
    monkeypatch.setattr("penstock.page.live.MOST_HISTORY", 10)
    with FileJournal(path, HEADER) as journal:
        shown = beside(journal)
    assert (shown["title"], shown["figures"]["observations"]) == ("Query best offers", 0)


def test_of_a_journal_in_an_object_store_a_page_reads_the_header_alone(monkeypatch):
    pytest.importorskip("obstore")
    monkeypatch.setattr("penstock.core.store_journal.PART_BYTES", 5_000)
    place, asked, read_bytes = f"memory://{uuid.uuid4().hex}/run/journal.jsonl", [], StorePath.read_bytes
    with StoreJournal(place, {"query": "another"}) as journal:
        write(journal, 60)
    monkeypatch.setattr(StorePath, "read_bytes", lambda self: asked.append(self.name) or read_bytes(self))
    with StoreJournal(place, HEADER) as journal:
        assert beside(journal)["title"] == "Query best offers"
    assert len(asked) == 1


def test_a_journal_is_followed_into_the_parts_that_come(tmp_path):
    path, story, begin = tmp_path / "journal.jsonl", Story(), 0
    follower = JournalFollower(path, story)
    with FileJournal(path, {"flow": "without a clock"}, part_bytes=8_000) as journal:
        for seconds in (50, 3, 3, 3, 3, 3, 3, 3, 3, 60, 1):
            write(journal, seconds, begin=begin)
            begin += seconds
            follower.look()
            assert story.quality.result().observations == begin
    follower.close()
    assert len(parts_of(path)) > 10
    assert story.since(Bookmark())[0] == Story().take_all(read(path).records).since(Bookmark())[0]


@pytest.mark.parametrize("text", ["# Read me\n", '{"kind":"run","schema":99}\n'])
def test_a_follower_refuses_what_a_reader_refuses(tmp_path, text):
    (tmp_path / "file").write_text(text)
    with pytest.raises(PenstockError) as of_reader:
        read(tmp_path / "file")
    with pytest.raises(PenstockError) as of_follower:
        JournalFollower(tmp_path / "file", Story()).look()
    assert str(of_follower.value) == str(of_reader.value)


def test_a_journal_of_yesterday_is_no_running_run(tmp_path):
    path, states = tmp_path / "journal.jsonl", []
    with FileJournal(path, HEADER) as journal:
        write(journal, 5)
    for age in (0, 86_400):
        os.utime(path, (time.time() - age,) * 2)
        follower = JournalFollower(path, story := Story())
        follower.look()
        follower.start().close()
        states.append(story.since(Bookmark())[0]["state"])
    assert states == ["running", "recorded"]


def test_a_follower_that_is_too_old_for_the_next_start_says_so_and_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.page.follow.EVERY", 0.01)
    path, story = tmp_path / "journal.jsonl", Story()
    with FileJournal(path, HEADER) as journal:
        write(journal, 5)
        follower = JournalFollower(path, story)
        follower.look()
        follower.start()
        journal.put({"kind": "run", "schema": 99})
        shown = until(lambda: (now := story.since(Bookmark())[0])["state"] == "recorded" and now, "its end")
    follower.close()
    assert "use a newer Penstock" in shown["warnings"]["rows"][-1]["text"]


@pytest.mark.parametrize("address", ["host:", "127.0.0.1:99999", ":80:", "127.0.0.1:port", ""])
def test_an_impossible_address_is_one_sentence(address):
    with pytest.raises(PenstockError, match="no address for a page"):
        parse_address(address)


def test_a_port_that_is_taken_is_one_sentence(serve, story):
    taken = serve("127.0.0.1:0", story)
    with pytest.raises(PenstockError, match="choose another port"):
        PageServer(f"127.0.0.1:{taken.port}", story)
