"""Applications on a user's own data: named columns, logs of other sites, and runs that work the input through."""

import gzip
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock.spark
from locked import lock
from penstock.apps import finance, logs, network, trading, wordcount
from penstock.apps.flow_app import Ended, _wait, checked, ends
from penstock.apps.own_data import lines_of, table_of, topic_lines
from penstock.core.errors import PenstockError
from penstock.dataflow.schemas import schema_of

#: The shapes of an sshd log of another site: no number of a process, programs with dashes, PAM, ISO times, IPv6.
OTHER_SITE = [
    ("Dec 10 06:55:46 LabSZ sshd[24200]: Invalid user webmaster from 173.234.31.186", "sshd", "173.234.31.186"),
    ("Dec 10 06:55:48 LabSZ sshd[24200]: Failed password for invalid user 10.0.0.1 from 173.234.31.186 port 38926 ssh2", "sshd", "173.234.31.186"),
    ("Dec 10 06:55:46 LabSZ sshd[24200]: reverse mapping checking getaddrinfo for ns.marryaldkfaczcz.com [173.234.31.186] failed - POSSIBLE BREAK-IN ATTEMPT!", "sshd", "173.234.31.186"),
    ("Dec 10 06:55:46 LabSZ sshd[24200]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=173.234.31.186 user=from 1.2.3.4", "sshd", "173.234.31.186"),
    ("Dec 10 06:55:46 LabSZ sshd[24200]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=host.example.com  user=root", "sshd", "host.example.com"),
    ("Mar  1 10:00:00 gate sshd: Invalid user from 8.8.8.8 from 203.0.113.9 port 4711", "sshd", "203.0.113.9"),
    ("2026-03-01T10:00:00.123456+01:00 gate sshd[7]: Failed password for root from 2001:db8::7 port 50000 ssh2", "sshd", "2001:db8::7"),
    ("Mar  1 10:00:00 gate systemd-logind[411]: New session 3 of user root.", "systemd-logind", None),
    ("Mar  1 10:00:00 gate postfix/smtpd[411]: connect from unknown[203.0.113.9]", "postfix/smtpd", None),
    ("Mar  1 10:00:00 gate kernel: usb 1-1: new device", "kernel", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "program", "address"), OTHER_SITE)
def test_a_log_of_another_site_is_parsed(line, program, address):
    assert re.match(logs._LINE, line)["component"] == program
    if address is not None:
        assert network.FAILURE.search(line)
        assert network.parse_line(line)[0] == address


def test_the_default_patterns_match_a_log_of_another_site():
    lines = [line for line, _, _ in OTHER_SITE]
    components, matches = logs.oracle(lines)
    assert components["sshd"] == 7
    assert {"Invalid user", "Failed password", "authentication failure", "BREAK-IN"} <= set(matches)
    assert len(network.oracle([line for line in lines for _ in range(5)])) > 5


def test_lines_come_from_files_folders_and_named_columns(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("one\ntwo\n")
    (tmp_path / "logs" / "b.log.gz").write_bytes(gzip.compress(b"three\n"))
    pq.write_table(pa.table({"message": ["four"]}), tmp_path / "logs" / "c.parquet")
    (tmp_path / "d.csv").write_text("id,message\n1,five\n")
    assert lines_of(str(tmp_path / "logs"), "message") == ["one", "two", "three", "four"]
    assert wordcount.given_lines({"input": str(tmp_path / "d.csv"), "column": "message"}) == ["five"]
    with pytest.raises(
        PenstockError, match=r"Unknown column of d.csv 'mesage'; did you mean 'message'.*--column"
    ):
        lines_of(str(tmp_path / "d.csv"), "mesage")
    with pytest.raises(PenstockError, match="There is no file or folder"):
        lines_of(str(tmp_path / "nothing"))


CUT = gzip.compress(b"one two three\n" * 1000, mtime=0)[:40]
DAMAGED = {
    "cut.log.gz": (CUT, "ended before"),
    "plain.log.gz": (b"one two\n", "Not a gzipped file"),
    "bad.log.gz": (CUT[:20] + b"\xff" * 20, "while decompressing"),
    "cut.csv.gz": (CUT, "cannot be read"),
    "half.parquet": (b"PAR1 is not enough", "cannot be read"),
    "latin.csv": (b"caf\xe9,line\n1,2\n", "cannot be read"),
    "twice.csv": (b"line,line\n1,2\n", "has the column 'line' twice; rename one of them"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_input_is_told_in_one_sentence_before_spark_starts(tmp_path, monkeypatch, name):
    monkeypatch.setattr(penstock.spark, "session", None)
    content, reason = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    for module in (logs, network, wordcount):
        with pytest.raises(PenstockError, match=reason) as raised:
            module.main(0.0, {**module_options(module), "input": str(tmp_path / name)})
        assert len(str(raised.value).splitlines()) == 1


def test_tables_that_cannot_be_read_are_told_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(penstock.spark, "session", None)
    (tmp_path / "t.csv").write_text("ts,ts,symbol,price\n1,2,A,3\n")
    given = {"input": str(tmp_path / "t.csv"), "quotes": str(tmp_path / "t.csv")}
    for module in (finance, trading):
        with pytest.raises(PenstockError, match="has the column 'ts' twice"):
            module.main(0.0, {**module_options(module), **given})


def module_options(module):
    return {name: option.default for name, option in module.OPTIONS.items()}


@pytest.mark.parametrize("place", ["locked/some.log", "n" * 300], ids=["locked", "long"])
def test_a_place_that_cannot_be_looked_at_is_told_with_the_reason(tmp_path, monkeypatch, place):
    lock(monkeypatch, tmp_path / "locked")
    with pytest.raises(PenstockError, match=r"cannot be read \((Permission denied|File name too long)\)"):
        lines_of(str(tmp_path / place))


def test_tables_come_with_named_columns(tmp_path):
    (tmp_path / "quotes.csv").write_text("when,ticker,last\n1,A,2.5\n3,B,4\n")
    options = {"input": str(tmp_path / "quotes.csv"), "ts": "when", "symbol": "ticker", "price": "last"}
    assert trading.given_quotes(options).to_pylist() == [
        {"ts": 1, "symbol": "A", "price": 2.5},
        {"ts": 3, "symbol": "B", "price": 4.0},
    ]
    with pytest.raises(PenstockError, match="name both, --input TRADES --quotes QUOTES"):
        finance.given({"input": "trades.csv", "quotes": ""})
    with pytest.raises(PenstockError, match="not what the application takes"):
        table_of(str(tmp_path / "quotes.csv"), {"price": "ticker"}, schema_of({"price": float}))


def test_a_run_waits_for_all_rows_however_long_a_batch_takes():
    class Slow:
        """Ends after many looks at it."""

        def __init__(self):
            self.looks = 0

        def await_termination(self, _seconds):
            self.looks += 1
            return self.looks == 200

    run = Slow()
    _wait(run, 0)
    assert run.looks == 200
    short = Ended(1.0, 20, 0, 0, 1, {}, {}, expected=50)
    assert short.figures["rows_expected"] == 50
    assert short.notes == ["NOT ALL: 20 of 50 rows were worked through before time was up."]
    assert Ended(1.0, 50, 0, 0, 1, {}, {}, expected=50).notes == []


def test_a_run_that_goes_on_from_a_checkpoint_counts_its_own_rows_a_second_and_is_not_checked():
    ended = Ended(10.0, 500, 40, 0, 9, {}, {}, rows_before=400)
    assert ended.figures["rows_a_second"] == 10
    assert ended.notes == [
        "Went on from a checkpoint: rows, results, put_aside and batches count from its first start; 400 rows were worked "
        "through before this run."
    ]
    right, said = checked({"input": ""}, "a loop", lambda: False, ended.rows_before)
    assert right is None
    assert "went on from a checkpoint" in said
    summary = finance._summary(ended, None, {}, 5)
    assert summary.figures["checked"] is None
    assert "went on from a checkpoint" in summary.notes[0]


def test_a_file_is_not_read_again_onto_what_a_checkpoint_has(tmp_path):
    (tmp_path / "ck" / "penstock" / "commits").mkdir(parents=True)
    (tmp_path / "ck" / "penstock" / "commits" / "000000000000.json").touch()
    (tmp_path / "some.log").write_text("one two")
    options = {name: option.default for name, option in wordcount.OPTIONS.items()}
    given = {**options, "input": str(tmp_path / "some.log"), "checkpoint": str(tmp_path / "ck")}
    with pytest.raises(PenstockError, match="rows would count double; name a new folder with --checkpoint"):
        wordcount.main(0.0, given)


@pytest.mark.spark
@pytest.mark.long
def test_a_second_run_with_a_checkpoint_goes_on(tmp_path):
    options = {name: option.default for name, option in network.OPTIONS.items()}
    given = {**options, "rate": "2000", "master": "local[2]", "checkpoint": str(tmp_path / "ck")}
    first = network.main(3.0, given)
    second = network.main(3.0, given)
    assert first.figures["checked"] is True
    assert second.figures["checked"] is None
    assert second.figures["rows"] > first.figures["rows"]
    assert f"{first.figures['rows']:,} rows were worked through before this run" in " ".join(second.notes)


@pytest.mark.spark
@pytest.mark.long
def test_an_application_works_a_users_file_through(tmp_path):
    lines = [
        f"Mar  1 10:00:{n % 60:02d} gate sshd: Invalid user x from 203.0.113.{n % 7}" for n in range(3000)
    ]
    (tmp_path / "auth.log").write_text("\n".join(lines))
    options = {name: option.default for name, option in network.OPTIONS.items()}
    summary = network.main(0.0, {**options, "input": str(tmp_path / "auth.log"), "master": "local[2]"})
    assert summary.figures["rows"] == summary.figures["rows_expected"] == 3000
    assert summary.figures["checked"] is True


def test_a_topic_has_no_end_and_an_address_that_is_none_is_refused():
    options = {"source": "real", "input": "kafka://127.0.0.1:9092/log"}
    assert not ends(options)
    assert checked(options, "a loop", lambda: False) == (None, "Not checked: a topic is read only once.")
    for wrong in ("kafka://127.0.0.1/log", "kafka://127.0.0.1:9092", "kafka://127.0.0.1:9092/a topic"):
        with pytest.raises(PenstockError, match=r"is no topic; write kafka://HOST:PORT/TOPIC"):
            topic_lines(None, wrong)
    with pytest.raises(PenstockError, match="Trades of a topic need quotes of a topic"):
        finance.topics(None, {**options, "quotes": "quotes.csv"})
