"""Calls that nobody means: each ends soon, with what was asked for or with one sentence and code 2, never with a traceback."""

import gzip
import json
import shlex
import signal
import sys

import pytest

from penstock.cli import main
from penstock.core.journal import FileJournal
from waiting import PATIENCE

RUN = {"kind": "run", "schema": 1}
STAGE = {"name": "q", "workers": [1, 1, 1], "utilisation": 0.5}
SEEN = {"kind": "observation", "time": 1.0, "period": 1.0, "stages": [STAGE]}

#: Journals as lists of records or as bytes.
JOURNALS = {
    "empty": b"",
    "blank": b"\n\n\n",
    "zeros": b"\0" * 4096,
    "text": b"hello\nworld\n",
    "utf16": json.dumps(RUN).encode("utf-16"),
    "latin": '{"kind":"run","schema":1,"name":"caf\xe9"}\n'.encode("latin-1"),
    "list": b"[1,2,3]\n[]\n",
    "number": b"17\n",
    "deep": b"[" * 100_000,
    "header": [RUN],
    "newer": [RUN | {"schema": 99}],
    "wordy-schema": [RUN | {"schema": "one"}],
    "endless-schema": [RUN | {"schema": 1e999}],
    "kind-number": [RUN, {"kind": 3}],
    "kind-list": [RUN, {"kind": ["observation"]}],
    "no-time": [RUN, {"kind": "observation", "period": 1.0, "stages": [STAGE]}],
    "word-time": [RUN, SEEN | {"time": "noon"}],
    "null-time": [RUN, SEEN | {"time": None}],
    "no-stages": [RUN, {"kind": "observation", "time": 1.0, "period": 1.0}],
    "stages-word": [RUN, SEEN | {"stages": "q"}],
    "stages-number": [RUN, SEEN | {"stages": 4}],
    "stage-word": [RUN, SEEN | {"stages": ["q"]}],
    "stage-unnamed": [RUN, SEEN | {"stages": [{"workers": [1, 1, 1]}]}],
    "workers-word": [RUN, SEEN | {"stages": [STAGE | {"workers": "many"}]}],
    "workers-short": [RUN, SEEN | {"stages": [STAGE | {"workers": [1]}]}],
    "workers-long": [RUN, SEEN | {"stages": [STAGE | {"workers": [1, 1, 1, 1, 1, 1]}]}],
    "workers-null": [RUN, SEEN | {"stages": [STAGE | {"workers": [None, None, None]}]}],
    "utilisation-word": [RUN, SEEN | {"stages": [STAGE | {"utilisation": "high"}]}],
    "latency-word": [RUN, SEEN | {"stages": [STAGE | {"latency": "slow"}]}],
    "latency-deep": [RUN, SEEN | {"stages": [STAGE | {"latency": {"mean": {"a": 1}}}]}],
    "keys-uneven": [RUN, SEEN | {"stages": [STAGE | {"keys": {"frequencies": [1.0], "routing": [0, 1]}}]}],
    "extra-word": [RUN, SEEN | {"stages": [STAGE | {"extra": {"x": "y"}}]}],
    "regions-odd": [RUN, SEEN | {"regions": [3]}],
    "executors-word": [RUN, SEEN | {"executors": "four"}],
    "far-apart": [RUN, SEEN, SEEN | {"time": 1e18}],
    "long-period": [RUN, SEEN | {"period": 1e18, "time": 1e18}],
    "endless-period": [RUN, SEEN | {"period": "inf"}],
    "negative-period": [RUN, SEEN | {"period": -5.0}],
    "huge-workers": [RUN, SEEN | {"stages": [STAGE | {"workers": [1e300, 1e300, 1e300]}]}],
    "backwards": [RUN, SEEN | {"time": 9.0}, SEEN],
    "decision-bare": [RUN, SEEN, {"kind": "decision"}],
    "decision-odd": [RUN, SEEN, {"kind": "decision", "time": "x", "changes": [[1]], "notes": 3}],
    "decision-word": [RUN, SEEN, {"kind": "decision", "time": 1.0, "changes": "more", "policy": {"a": 1}}],
    "change-bare": [RUN, SEEN, {"kind": "reconfiguration", "changes": [["workers", "q", 2, 1]]}],
    "change-odd": [RUN, SEEN, {"kind": "reconfiguration", "time": 1.0, "changes": [["workers"]]}],
    "change-number": [RUN, SEEN, {"kind": "reconfiguration", "time": 1.0, "changes": 7}],
    "change-word": [RUN, SEEN, {"kind": "reconfiguration", "time": 1.0, "changes": [["workers", "q", "b", "a"]]}],
    "warning-bare": [RUN, SEEN, {"kind": "warning"}],
    "warning-odd": [RUN, SEEN, {"kind": "warning", "time": {}, "text": ["[/x]"]}],
    "target-word": [RUN | {"target": "soon", "metric": "latency_mean"}, SEEN],
    "metric-odd": [RUN | {"target": 1.0, "metric": 7}, SEEN],
    "torn": json.dumps(RUN).encode() + b"\n" + json.dumps(SEEN).encode() + b'\n{"kind":"observ',
    "[/x]": [RUN, SEEN],
}  # fmt: skip

#: Traces as text.
TRACES = {
    "empty.csv": "",
    "header.csv": "arrival\n",
    "one.csv": "arrival\n1\n",
    "equal.csv": "arrival\n1\n1\n1\n",
    "twice.csv": "arrival,arrival\n1,2\n2,3\n3,4\n",
    "words.csv": "arrival\nsoon\nlater\n",
    "gaps.csv": "arrival\n1\n\n2\n,\n3\n",
    "nan.csv": "arrival\n1\nnan\n3\n",
    "inf.csv": "arrival\n1\n2\ninf\n",
    "back.csv": "arrival\n3\n2\n1\n",
    "before.csv": "arrival\n-1e9\n0\n30\n",
    "single.csv": "ts\n1700000000\n",
    "same.csv": "ts\n1700000000\n1700000000\n",
    "clock.csv": "arrival\n" + "".join(f"{1_700_000_000 + i}\n" for i in range(30)),
    "event.csv": "arrival,event_time\n" + "".join(f"{i},monday\n" for i in range(30)),
    "far.csv": "arrival\n0\n1\n1e18\n",
    "tiny.csv": "arrival\n0\n1e-18\n2e-18\n3e-18\n",
    "ragged.csv": "arrival,x\n1\n2,3,4\n",
    "quote.csv": 'arrival\n"1\n2\n',
    "fine.csv": "arrival,a0,event\n" + "".join(f"{i / 10},{i},{i / 10}\n" for i in range(200)),
    "utf16.csv": "arrival\n1\n2\n".encode("utf-16"),
    "fake.parquet": b"PAR1 is not enough",
    "fake.csv.gz": b"not packed",
    "cut.csv.gz": gzip.compress(b"arrival\n" + b"1\n" * 1000)[:40],
    "odd.xyz": "arrival\n1\n2\n",
    "[/x].csv": "arrival\n" + "".join(f"{i / 10}\n" for i in range(100)),
}

#: What is called; {name} is a file of the above, {out} a place to write.
CALLS = [
    *(f"report {{{name}}} --html {{out}}/page.html" for name in JOURNALS),
    *(f"trace describe {{{name}}}" for name in TRACES),
    *(f"trace fit {{{name}}} --best 1 --max-states 2" for name in TRACES if name not in ("far.csv",)),
    *(f"simulate -p Static --calibrate {{{name}}} --seconds 5" for name in ("utf16", "header", "no-stages", "far-apart", "workers-word", "torn")),
    "report", "report {out}", "report {out}/none", "report {torn} --html {out}", "report {torn} --html /proc/x/y.html",
    "report {torn} --target nan --html {out}/p.html", "report {torn} --target -1 --html {out}/p.html",
    "report {torn} --target x", "report {torn} --html {out}/[/x].html --json", "report {torn} --what",
    "simulate -p Static --period -1", "simulate -p Static --period 0", "simulate -p Static --period nan", "simulate -p Static --period inf", "simulate -p Static --period 1e-9",
    "simulate -p Static --seconds -1", "simulate -p Static --seconds nan", "simulate -p Static --seconds inf", "simulate -p Static --seconds 1e18", "simulate -p Static --seconds 0",
    "simulate -p Static --set row_cost=nan", "simulate -p Static --set row_cost=-1", "simulate -p Static --set row_cost=inf", "simulate -p Static --set row_cost=",
    "simulate -p Static --set row_cost", "simulate -p Static --set =3", "simulate -p Static --set nobody=3", "simulate -p Static --set row_cost=[/x]",
    "simulate -p Static --trace map2:rate=1e9,dispersion=5 --seconds 1000", "simulate -p Static --trace poisson:rate=nan",
    "simulate -p Static --trace poisson:rate=-5", "simulate -p Static --trace poisson:rate=0", "simulate -p Static --trace poisson:rate", "simulate -p Static --trace :",
    "simulate -p Static --trace [/x]", "simulate -p Static --trace {far.csv}", "simulate -p Static --trace {twice.csv}", "simulate -p Static --trace {words.csv}",
    *(f"simulate -p Static --trace {{{name}}}" for name in ("one.csv", "equal.csv", "nan.csv", "inf.csv", "back.csv", "gaps.csv", "tiny.csv", "before.csv", "clock.csv", "event.csv", "header.csv", "odd.xyz", "fake.parquet")),
    *(f"simulate -p Static --trace {{{name}}} --column ts" for name in ("single.csv", "same.csv", "fine.csv")),
    "simulate -p Static --trace {fine.csv} --seconds 0", "simulate -p Static --trace {out}", "simulate -p Static --trace {clock.csv} --unit ns", "simulate -p Static --trace bc",
    "simulate -p Static --seconds 4", "simulate -p Static --seconds 5", "simulate -p Static --seconds 20 --warm-up 19", "simulate -p Static --seconds 20 --metric throughput --target 5",
    "simulate -p Static --seconds 20 --plot {out}", "simulate -p Static --seconds 20 --html {out}", "simulate -p Static --seconds 20 --html /proc/x.html", "simulate -p Static --seconds 20 --plot {fine.csv}/p.png",
    "simulate -p Static --trace {empty.csv}", "simulate -p Static --plant [/x]", "simulate -p Static --plant ''", "simulate -p Static --metric [/x]",
    "simulate -p Static --target nan --seconds 20", "simulate -p Static --target -1 --seconds 20", "simulate --policy [/x]", "simulate --policy ''",
    "simulate --policy Threshold:high=nan", "simulate --policy Threshold:high=", "simulate --policy Threshold:limits=4:1",
    "simulate --policy Threshold:limits=1e9", "simulate --policy Threshold:nobody=1", "simulate --policy Static:settings=x",
    "simulate -p Static --seed -1 --seconds 5", "simulate -p Static --seed x", "simulate -p Static --warm-up nan", "simulate -p Static --warm-up 1e9", "simulate -p Static --warm-up -1", "simulate --prefer [/x]", "simulate -p Static --plot /proc/x.png --seconds 5",
    "simulate -p Static --plot {out}/p.nonsense --seconds 5", "simulate -p Static --plant operator --period -1", "simulate -p Static --plant regions --period -1",
    "simulate -p Static --plant preference --set window=-1 --seconds 2", "simulate -p Static --plant network --set cores=0 --seconds 2",
    "trace", "trace generate", "trace nobody", "trace generate -o {out}/a.csv --rate 1e9", "trace generate -o {out}/a.csv --rate nan",
    "trace generate -o {out}/a.csv --rate -1", "trace generate -o {out}/a.csv --rate inf", "trace generate -o {out}/a.csv --rate 0",
    "trace generate -o {out}/a.csv --seconds 1e18", "trace generate -o {out}/a.csv --seconds inf",
    "trace generate -o {out}/a.csv --seconds nan", "trace generate -o {out}/a.csv --model [/x]",
    "trace generate -o {out}/a.csv --model map2 --dispersion nan", "trace generate -o {out}/a.csv --model map2 --dispersion 1e18 --seconds 1",
    "trace generate -o {out}/a.csv --model map2 --dispersion 0.1", "trace generate -o {out}/a.csv --model self-similar --hurst 1",
    "trace generate -o {out}/a.csv --model self-similar --hurst nan", "trace generate -o {out}/a.csv --dims -1 --seconds 1",
    "trace generate -o {out}/a.csv --dims 1000000000 --seconds 1", "trace generate -o {out}/a.csv --keys -1 --seconds 1",
    "trace generate -o {out}/a.csv --keys 1000000000000 --seconds 1", "trace generate -o {out}/a.csv --zipf nan --keys 3 --seconds 1",
    "trace generate -o {out}/a.csv --zipf -1e9 --keys 3 --seconds 1", "trace generate -o {out}/a.csv --delay-mean -1 --seconds 1",
    "trace generate -o {out}/a.csv --delay-mean nan --seconds 1", "trace generate -o {out}/a.csv --delay [/x] --seconds 1",
    "trace generate -o {out}/a.csv --shape flash:at=1 --seconds 1", "trace generate -o {out}/a.csv --shape step:at=nan,factor=1 --seconds 1",
    "trace generate -o {out}/a.csv --shape daily:period=0,amplitude=1 --seconds 1", "trace generate -o {out}/a.csv --shape x --seconds 1",
    "trace generate -o {out}/a.csv --superpose map2:rate=1e12 --seconds 1", "trace generate -o {out}/a.csv --superpose : --seconds 1",
    "trace generate -o {out}/a.csv --replay {back.csv}", "trace generate -o {out}/a.csv --replay {fine.csv} --speed 0",
    "trace generate -o {out}/a.csv --replay {fine.csv} --speed nan", "trace generate -o {out}/a.csv --replay {fine.csv} --speed -2",
    "trace generate -o {out}/a.csv --replay {one.csv} --loop --seconds 5", "trace generate -o {out}/a.csv --replay {equal.csv} --loop --seconds 5",
    "trace generate -o {out}/a.csv --distribution 2.5 --dims 2 --seconds 1", "trace generate -o {out}/a.csv --distribution x:y --dims 2 --seconds 1",
    "trace generate -o {out}/a.csv --key-frequencies 1,-1 --seconds 1", "trace generate -o {out}/a.csv --key-frequencies 0,0 --seconds 1",
    "trace generate -o {out}/a.csv --key-frequencies 1>1,2 --key-drift 1 --seconds 1",
    "trace generate -o {out}/a.csv --key-drift nan --keys 3 --seconds 1", "trace generate -o {out}/a.nonsense --seconds 1",
    "trace generate -o {out} --seconds 1", "trace generate -o /proc/a.csv --seconds 1", "trace generate -o {out}/[/x].csv --seconds 1",
    "trace generate -o {out}/a.csv --seed -1 --seconds 1",
    "trace describe {fine.csv} --column [/x]", "trace describe {fine.csv} --unit [/x]", "trace describe {fine.csv} --event-column nobody",
    "trace describe {fine.csv} --event-column event", "trace describe {fine.csv} --plot {out}/p.nonsense", "trace describe {out}",
    "trace describe {fine.csv} --column a0 --json", "trace describe",
    "trace fit {fine.csv} --best 0", "trace fit {fine.csv} --best -1", "trace fit {fine.csv} --max-states 0", "trace fit {fine.csv} --max-states 1 --best 1",
    "trace fit {fine.csv} --last -1", "trace fit {fine.csv} --last 1", "trace fit {fine.csv} --service-scv nan",
    "trace fit {fine.csv} --service-scv -1", "trace fit {fine.csv} --service-scv 0.2 --best 1 --max-states 2", "trace fit {fine.csv} --seed -1 --best 1 --max-states 2",
    "state", "state inspect", "state inspect {out}", "state inspect {out}/none", "state inspect {fine.csv}", "state inspect {checkpoint}",
    "autoscale", "autoscale {out}/none.py", "autoscale {out}", "autoscale --period -1 {script}", "autoscale --period nan {script}",
    "autoscale --target nan {script}", "autoscale --target -1 {script}", "autoscale --executors 0:3 {script}", "autoscale --executors : {script}",
    "autoscale --executors 1:1e9 {script}", "autoscale --cpu nan {script}", "autoscale --cpu 0 {script}", "autoscale --cpu 2 {script}",
    "autoscale --policy [/x] {script}", "autoscale --policy threshold:high=nan {script}", "autoscale --metrics nowhere {script}",
    "autoscale --journal {out} {script}", "autoscale --journal /proc/x/y {script}", "autoscale {script}",
    "run", "run nobody", "run [/x]", "run skyline --options", "run skyline --nobody 3", "run skyline --rate", "run skyline rate",
    "run skyline --seconds -1", "run skyline --seconds nan", "run skyline --seconds x", "run skyline --rate nan", "run skyline --rate 1e18",
    "run skyline --rate -5", "run skyline --window x", "run skyline --slide -1", "run skyline --policy [/x]",
    "run wordcount --source fake", "run wordcount --rate x", "run wordcount --batch nan", "run finance --symbols 0", "run trading --window nan",
    "doctor --what", "doctor --quick --json extra", "--nobody", "nobody", "[/x]", "--version", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    found = {"out": folder / "out", "script": folder / "nothing.py", "checkpoint": folder / "checkpoint"}
    found["out"].mkdir()
    found["script"].write_text("x = 1\n")
    (found["checkpoint"] / "penstock").mkdir(parents=True)
    (found["checkpoint"] / "penstock" / "manifest.json").write_text("{")
    for name, content in JOURNALS.items():
        found[name] = (
            folder / f"{name.replace('/', '')}.jsonl" if name != "[/x]" else folder / "[" / "x].jsonl"
        )
        found[name].parent.mkdir(exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(record) + "\n" for record in content).encode()
        found[name].write_bytes(content)
    for name, content in TRACES.items():
        found[name] = folder / name
        found[name].parent.mkdir(exist_ok=True)
        found[name].write_bytes(content if isinstance(content, bytes) else content.encode())
    return found


def never_ends(*_):
    raise AssertionError("the call does not end")


@pytest.mark.parametrize("call", CALLS)
def test_a_call_ends_with_what_was_asked_for_or_with_one_sentence(call, places, monkeypatch, capsys):
    words = shlex.split(call)
    for name, place in places.items():
        words = [word.replace(f"{{{name}}}", str(place)) for word in words]
    monkeypatch.setattr(sys, "argv", ["penstock", *words])
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(places["out"])
    before = signal.signal(signal.SIGALRM, never_ends)
    signal.alarm(round(PATIENCE))
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    told = capsys.readouterr()
    assert code in (0, 2)
    if code == 2:
        assert told.err.startswith("penstock: "), told
        assert len(told.err.strip().splitlines()) == 1
        assert told.out == ""


def test_there_are_many_calls_and_of_every_command():
    assert len(set(CALLS)) == len(CALLS) >= 145
    assert {call.split(" ")[0] for call in CALLS} >= {
        "autoscale",
        "doctor",
        "report",
        "run",
        "simulate",
        "state",
        "trace",
    }


def test_a_readable_part_of_a_journal_is_reported(places, tmp_path):
    from penstock.page.document import write_report

    journal = tmp_path / "mixed.jsonl"
    FileJournal(journal).close()
    with journal.open("a") as file:
        for record in (SEEN, SEEN | {"time": "noon"}, SEEN | {"time": 2.0}):
            file.write(json.dumps(record) + "\n")
    assert write_report(journal, tmp_path / "p.html").observations == 2
    assert "1 unreadable line" in (tmp_path / "p.html").read_text()
