"""``penstock report``."""

import json
import re

from typer.testing import CliRunner

from penstock.cli import app, main
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.journal import FileJournal
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.plant import Applied


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
    assert not re.findall(r"(?:src|href)=['\"](?!data:)", html), "nothing is loaded from elsewhere"
    assert "executors 4" in html
    assert "utilisation is &lt;0.5&gt; at 9" in html
    assert "Gave up 1 executor(s)." in html
    assert "data:image/png;base64," in html
    assert html.count('<tr class="change">') == 1
    assert html.count("<tr>") < 10, "decisions that say the same are one row"


def test_a_journal_without_observations_or_a_wrong_file_is_one_sentence(tmp_path, monkeypatch, capsys):
    import pytest

    empty = tmp_path / "empty.jsonl"
    FileJournal(empty).close()
    for path, words in ((empty, "nothing to report"), (tmp_path / "none.jsonl", "cannot be read")):
        monkeypatch.setattr("sys.argv", ["penstock", "report", str(path), "--html", str(tmp_path / "p.html")])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()
