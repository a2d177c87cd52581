"""``penstock report`` and ``penstock watch``."""

import json
import re
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import app, main
from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Controller, run
from penstock.core.decision import Change, Decision
from penstock.core.journal import FileJournal
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.policies import Mpc
from penstock.policies.catalog import policy_named
from penstock.sim.load import load
from penstock.sim.plant_catalog import plant_parameters, simulated_plant
from waiting import PATIENCE, until

SIMULATED = ("spark", "operator", "preference", "network", "regions")


def a_journal(path, target=2.0):
    with FileJournal(path, {"target": target, "metric": "latency_p95"}) as journal:
        for t in range(1, 21):
            count = 1 if t < 10 else 4
            stage = StageObservation(
                "q",
                Capacity.steady(count),
                arrival_rate=100.0 * t,
                tuples_in=100.0,
                tuples_out=100.0,
                latency=Latency(1.0, 1.0, 3.0 if 5 < t < 10 else 1.5),
                utilisation=0.5,
            )
            journal.observation(Observation(float(t), 1.0, (stage,), executors=Capacity.steady(count)))
            grow = (Change(Knob.EXECUTORS, "", 4),) if t == 9 else ()
            journal.decision(float(t), "Threshold", Decision(grow, f"utilisation is <0.5> at {t}"))
            if grow:
                journal.reconfiguration(float(t), Applied(grow), {grow[0]: 1})
        journal.warning(20.0, "plant", "Gave up 1 executor(s).")
    return path


def test_the_page_stands_alone_and_tells_everything(tmp_path):
    page = tmp_path / "deep" / "page.html"
    result = CliRunner().invoke(
        app, ["report", str(a_journal(tmp_path / "j.jsonl")), "--html", str(page), "--json"]
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["violations"] == 4
    assert told["reconfigurations"] == 1
    assert told["core_seconds"] == 9 * 1 + 11 * 4
    assert told["static_peak_core_seconds"] == 20 * 4
    html = page.read_text()
    assert not re.findall(r"<[^>]+ (?:src|href)=['\"](?!data:)", html), "nothing is loaded from elsewhere"
    inside = data_of(html)
    assert inside["figures"]["violations"] == 4
    rows = inside["decisions"]["rows"]
    assert [row["changes"] for row in rows if row["changes"]] == ["executors 4"]
    assert "utilisation is <0.5> at 9" in [row["reason"] for row in rows]
    assert len(rows) < 10, "decisions that say the same are one row"
    assert inside["warnings"]["rows"][0]["text"] == "Gave up 1 executor(s)."


def data_of(html):
    """What stands inside a page."""
    return json.loads(html.partition('id="data">')[2].partition("</script>")[0])


def test_a_journal_without_observations_or_a_wrong_file_is_one_sentence(tmp_path, monkeypatch, capsys):
    empty = tmp_path / "empty.jsonl"
    FileJournal(empty).close()
    for path, words in ((empty, "nothing to report"), (tmp_path / "none.jsonl", "cannot be read")):
        monkeypatch.setattr("sys.argv", ["penstock", "report", str(path), "--html", str(tmp_path / "p.html")])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()


def reported(journal, tmp_path):
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(journal), "--html", str(page), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), page.read_text()


@pytest.mark.parametrize("name", SIMULATED)
def test_a_run_of_every_simulated_plant_can_be_reported(name, tmp_path):
    kind = simulated_plant(name)
    parameters = plant_parameters(kind, [])
    plant = kind.make(load(kind.trace, 40.0, 1), parameters, 1)
    with FileJournal(tmp_path / "j.jsonl") as journal:
        policy = policy_named("Threshold", kind.surroundings(parameters, kind.target, None))
        run(Controller(plant, policy, journal=journal), plant, kind.period, 40.0)
    figures, html = reported(tmp_path / "j.jsonl", tmp_path)
    assert figures["observations"] >= 1
    assert 0 < figures["core_seconds"] <= figures["static_peak_core_seconds"] * 1.000001
    assert data_of(html).get("target") is None


def test_an_attached_run_that_waited_for_rows_is_reported_by_the_name_of_its_query(tmp_path):
    header = {"plant": "spark", "started": 1_700_000_000.0, "target": 2.0, "metric": "latency_p95"}
    with FileJournal(tmp_path / "journal.jsonl", header) as journal:
        journal.observation(Observation(5.0, 5.0, (), executors=Capacity.steady(2)))
        stage = StageObservation("orders", Capacity.steady(2), arrival_rate=10.0, tuples_in=50.0)
        journal.observation(Observation(10.0, 5.0, (stage,), executors=Capacity.steady(2)))
    figures, html = reported(tmp_path / "journal.jsonl", tmp_path)
    assert figures["core_seconds"] == 20
    assert figures["violations"] is None
    assert "<title>Query orders - Penstock</title>" in html
    inside = data_of(html)
    assert inside["figures"]["violation_share"] is None, (
        "where nothing was measured there are no 0 % violations"
    )
    assert (inside["clock"], inside["whole"]["columns"]["time"]) == (
        "wall",
        [1_700_000_005.0, 1_700_000_010.0],
    )


def test_seconds_that_two_periods_share_count_once(tmp_path):
    with FileJournal(tmp_path / "journal.jsonl", {"flow": "words"}) as journal:
        for time in (100.0, 110.0, 120.0):  # each tells of the last hundred seconds
            journal.observation(Observation(time, 100.0, (StageObservation("count", Capacity.steady(4)),)))
    figures, html = reported(tmp_path / "journal.jsonl", tmp_path)
    assert figures["core_seconds"] == 4 * 120
    assert "<title>Flow words - Penstock</title>" in html


def test_live_runs_of_every_kind_can_be_reported(spark, tmp_path):
    """A query, a flow and an attached query on Spark; those of the simulator are above."""
    traffic = spark.readStream.format("penstock-traffic").option("rate", 500).option("seconds", 4)
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("a0"), ps.minimize("a1")), time="event_time", window="1 second"
    )
    of_query = query.start(
        traffic.option("dims", 2).load(),
        output=tmp_path / "out",
        checkpoint=tmp_path / "query",
        available_now=True,
        policy=Mpc("latency", target=2.0),
        dry_run=True,
    )

    @ps.operator(keys="key", state={"n": int}, grain="key", output={"key": int, "n": int})
    def count(rows, state, output):
        state["n"] += len(rows)
        output.emit({"key": rows[0]["key"], "n": state["n"]})

    of_query.await_termination()
    flow = ps.Flow("counts")
    flow.source("rows", traffic.option("keys", 5).load().select("key")).through(count).sink("counts")
    of_flow = flow.start(
        spark, checkpoint=tmp_path / "flow", output=tmp_path / "counts", available_now=True,
        policy="mpc:target=1.5", dry_run=True, metrics="127.0.0.1:0",
    )  # fmt: skip
    with urlopen(f"http://{of_flow.metrics_address}/metrics", timeout=PATIENCE) as metrics:
        assert "penstock_target_seconds 1.5" in metrics.read().decode()
    of_flow.await_termination()
    stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    mine = stream.writeStream.format("noop").queryName("mine").trigger(processingTime="1 second").start()
    handle = ps.attach(mine, executors=(1, 2), target=5.0, period=0.5, journal=tmp_path / "attached.jsonl")
    try:
        until(lambda: "arrival_rate" in (tmp_path / "attached.jsonl").read_text(), "an observation with rows")
    finally:
        handle.stop()
        mine.stop()
    for journal, title, target in (
        (tmp_path / "query" / "journal.jsonl", "Query Skyline of a0, a1 - Penstock", (2.0, "latency_mean")),
        (tmp_path / "flow" / "journal.jsonl", "Flow counts", (1.5, "latency_mean")),
        (tmp_path / "attached.jsonl", "Query mine", (5.0, "latency_p95")),
    ):
        figures, html = reported(journal, tmp_path)
        assert figures["observations"] >= 1
        assert figures["core_seconds"] <= figures["static_peak_core_seconds"] * 1.000001
        assert f"<title>{title}" in html
        inside = data_of(html)
        assert inside["clock"] == "wall"
        assert (inside["target"], inside["metric"]) == target
        assert "journal.jsonl" not in inside["title"]


def test_figures_alone_write_no_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = a_journal(tmp_path / "j.jsonl")
    assert json.loads(CliRunner().invoke(app, ["report", str(journal), "--json"]).stdout)["observations"]
    assert not (tmp_path / "report.html").exists()
    assert CliRunner().invoke(app, ["report", str(journal)]).exit_code == 0
    assert (tmp_path / "report.html").exists()


def test_ctrl_c_ends_the_watching_and_not_the_run(tmp_path):
    journal, states = a_journal(tmp_path / "j.jsonl"), []
    call = [sys.executable, "-m", "penstock", "watch", str(journal), "--page", "127.0.0.1:0"]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    try:
        address = child.stdout.readline().split(" at ")[1].split()[0]
        with urlopen(address.replace("/?", "/events?"), timeout=PATIENCE) as events:
            for line in events:
                if line.startswith(b"data: "):
                    states.append(json.loads(line[6:])["state"])
                    if len(states) == 1:
                        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
    finally:
        child.kill()
        child.wait()
    assert states
    assert "ended" not in states
