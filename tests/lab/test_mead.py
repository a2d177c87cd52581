"""What the page of MEAD on Spark says, from made-up outcomes."""

from penstock_lab.benches.mead import LONG, TARGETS, MeadResult, _claims, _loads, _plot, _table
from penstock_lab.results import ResultsPage


def outcomes(slow):
    """MAP meets every target with three quarters of the CPU; Poisson arrivals are ``slow`` times the target."""
    made = [
        MeadResult(LONG, "static", 3.5, 2.0, 2.5, 1.0, 0),
        MeadResult(LONG, "threshold", 3.5, 2.8, 3.5, 0.6, 3),
    ]
    for target in TARGETS[LONG]:
        made += [MeadResult(LONG, m, target, slow * target, 5.0, 0.6, 3) for m in ("mg1", "gig1")]
        made.append(MeadResult(LONG, "map", target, 0.9 * target, 3.0, 0.75, 3))
    return made


def held(slow):
    report = ResultsPage("a test", "")
    _claims(report, LONG, outcomes(slow))
    return [c.holds for c in report.claims]


def test_the_claims_are_that_map_meets_what_poisson_arrivals_miss():
    assert held(slow=1.2) == [True, True, True] * 3
    assert held(slow=0.9) == [True, True, False] * 3


def test_reactive_ways_have_no_requirement_and_chosen_targets_are_disclosed():
    table = _table(LONG, outcomes(1.2))
    assert [row[1] for row in table.rows[:3]] == ["", "", TARGETS[LONG][0]]
    assert "chosen beforehand in a simulation" in table.note


def test_the_plot_has_a_panel_for_every_load(tmp_path):
    assert _plot(tmp_path / "m.png", outcomes(1.2)).stat().st_size > 5000


def test_a_quick_look_takes_one_load(monkeypatch):
    monkeypatch.setattr("penstock_lab.benches.mead.data_file", lambda name: None)
    assert _loads(quick=True) == _loads(quick=False) == [LONG]
