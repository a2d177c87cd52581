"""The experiments in miniature: they run, and the claims that do not need length hold."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.core.errors import PenstockError
from penstock.policies import Organic
from penstock.sim.load import Load
from penstock_lab.papers import (
    PAPERS,
    elastic_log_files,
    elastic_logs,
    elastic_streams,
    joker,
    joker_applications,
    joker_parameters,
    mead,
    mpc,
    mpc_migration,
    policies,
    policies_beyond,
    ppq_windows,
)
from penstock_lab.papers.elastic_recordings import recorded_events, recorded_rates
from penstock_lab.papers.joker_runs import adapt, single
from penstock_lab.papers.mead_runs import MeadRun, execute_all
from penstock_lab.papers.mpc_runs import MpcRun
from penstock_lab.papers.mpc_runs import execute as mpc_run
from penstock_lab.papers.query_runs import SimulatedQueryRun, Traffic, execute
from penstock_lab.results import ResultsPage


def report():
    return ResultsPage("a test", "")


def held(made):
    return {c.text: c.holds for c in made.claims}


def test_unknown_papers_and_scales_are_named():
    for arguments, word in ((["novel"], "novel"), (["mpc", "--scale", "0"], "scale")):
        done = CliRunner().invoke(app, ["papers", *arguments])
        assert isinstance(done.exception, PenstockError)
        assert word in str(done.exception)


def test_the_command_writes_a_page_with_checked_claims(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_lab.papers.mpc.run", lambda scale, folder: _little(folder))
    done = CliRunner().invoke(app, ["papers", "mpc", "--scale", "0.1", "-o", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["claims"]
    assert "Table 5" in (tmp_path / "mpc.md").read_text()


def _little(folder: Path) -> ResultsPage:
    made = report()
    mpc.search(made)
    return made


def test_every_paper_has_its_module():
    from importlib import import_module

    for module, _ in PAPERS.values():
        assert callable(import_module(f"penstock_lab.papers.{module}").run)


def test_a_two_stage_run_ends_and_counts():
    out = execute(SimulatedQueryRun(Traffic("map", 3000, 6.0, 200), n=2, m=4, control=2.5))
    assert out.window_counts.sum() >= 25
    assert 0 < out.selected < 1
    assert out.parts >= 1


def test_in_order_runs_hold_more_tuples():
    run = {
        "slide": "100 milliseconds",
        "scheduling": None,
        "control": None,
        "n": 2,
        "drain": 0.0,
        "delay": 0.3,
    }
    traffic = Traffic("poisson", 4000, 4.0)
    free, ordered = (
        execute(SimulatedQueryRun(traffic, **run)),
        execute(SimulatedQueryRun(traffic, **run, in_order=True)),
    )
    assert ordered.held > free.held


def test_panes_save_comparisons():
    made = report()
    ppq_windows.panes_against_windows(made, 0.01)
    ratios = [row[3] for row in made.tables[0].rows]
    assert ratios[-1] < ratios[0]


def test_searches_agree_and_migrations_rank():
    made = report()
    mpc.search(made)
    assert held(made)["Table 5: the searches find the same optimum"]


def test_migration_protocols_are_compared(tmp_path):
    made = report()
    mpc_migration.migration(made, 0.1, tmp_path)
    assert all(held(made).values())
    assert (tmp_path / "mpc-fig10.png").exists()


def test_predictive_power_control_beats_the_static_peak():
    peak, saver = (mpc_run(MpcRun("walk", s, 0.0, 1, 1.0, 12)) for s in ("static peak", "Th-Power"))
    assert saver.power.mean() < 0.8 * peak.power.mean()
    assert np.mean(saver.ratio) > 0.9


def test_models_that_do_not_see_bursts_are_far_off():
    made = report()
    mead.models(made, 0.1)
    assert all(held(made).values())


def test_mead_needs_less_than_all_of_the_cpu():
    (out,) = execute_all([MeadRun("SYNT", "mg1", 0.3, 300.0)])
    assert 0.4 <= out.cpu < 1.0
    assert out.other < 0.1


def test_organic_adaptation_of_the_micro_benchmark():
    assert adapt(single(512), Organic(order="fusion"), 200.0).speedup <= 4.0


def test_the_selectivity_experiment_undoes_its_first_split():
    made = report()
    joker.selectivity(made, 120.0)
    assert held(made)["Fig. 10: the first split does not pay and is undone, then a replica is added"]


@pytest.mark.parametrize("kept", [1, 2])
def test_a_trial_that_stays_is_not_undone(monkeypatch, kept):
    tries = {0.5: (2, 2), 0.8: (1, 2), 0.95: (1, 1)}

    def adapt_so(graph, policy, seconds, *_):
        at_160, at_320 = tries[policy.bottleneck]
        ends = [1, 1, 1, min(kept, at_320), 2]
        most = [1, 1, at_160, at_320, 2]
        time = np.arange(1.0, seconds + 1)
        phase = ((time - 1) // 100).astype(int)
        replicas = np.where(time % 100 < 50, np.array(most)[phase], np.array(ends)[phase])
        replicas[time % 100 == 0] = np.array(ends)
        return SimpleNamespace(time=time, replicas=replicas, throughput=time, configs={"r1": ((0,), 2)})

    monkeypatch.setattr(joker_parameters, "adapt", adapt_so)
    made = report()
    joker_parameters.bottleneck(made)
    assert held(made) == {
        "Fig. 11: too low a threshold tries what does not pay": True,
        "Fig. 11: and undoes it": kept == 1,
        "Fig. 11: two replicas at 640 ktps whatever the threshold": True,
    }
    assert made.tables[0].rows[0][3] == "2 (1)"


@pytest.mark.parametrize(("longest", "partly"), [(5.0, True), (6.0, False), (7.0, False), (2.0, False)])
def test_what_goes_past_the_start_is_not_partly_offset(longest, partly):
    figures = [mpc.MpcFigures(changes, 6.0, 30.0, changes, 1.0, 1.0) for changes in (6.0, 2.0, 3.0, longest)]
    made = report()
    mpc._judge(made, [figures])
    for text in (
        "Result 1: a longer horizon partly offsets it",
        "Result 3: longer horizons partly offset it",
    ):
        assert held(made)[text] == partly
    (claim,) = (c for c in made.claims if c.text.startswith("Result 1: a longer"))
    assert claim.bound == "all 1: more with h = 3 than with h = 1, fewer than with NoSw"


def test_mead_is_judged_with_the_papers_two_windows_and_figure_by_figure():
    outs = {}
    for target, models in mead.TABLE_1["BC"].items():
        for model, (response, cpu) in models.items():
            for windows in (2, 3) if model == "map" else (2,):
                off = 2.0 if (model, windows, target) == ("map", 2, 0.3) else 1.0
                outs[MeadRun("BC", model, target, 600.0, windows=windows)] = SimpleNamespace(
                    run=MeadRun("BC", model, target, 600.0, windows=windows), figure=off * response,
                    met=off == 1.0 and model == "map", cpu=cpu / 100 if windows == 2 else 0.9, other=0.01 * windows,
                )  # fmt: skip
    made = report()
    mead.requirement(made, "Table I: mean response", mead.TABLE_1, ["BC"], 600.0, outs, None)
    mead.headline(made, outs)
    by = {c.text: c for c in made.claims}
    figures = by["Table I: every figure is that of the paper"]
    assert (figures.holds, figures.measured) == (False, "17: responses BC 8 of 9; CPU 9 of 9")
    assert by["Headline: with at most 65 % of the CPU on average"].measured == "55.8%"
    assert by["The other path stays within every target as well"].measured == "0.020 s"


def test_applications_and_overhead_of_joker(tmp_path):
    made = report()
    joker_applications.overhead(made, 200.0, tmp_path)
    joker_applications.finance(made, 200.0)
    found = held(made)
    assert found[
        "Fig. 16: the first changes are two splits and a replica; pipelines of operators 1-3, 4 and 5"
    ]
    assert found["Fig. 19: a cheap second operator is not split off"]


def test_the_authors_logs_are_followed_on_whatever_streams_there_are(tmp_path, monkeypatch):
    """The command takes its streams from the files, so that others work as well."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    rates = "stream,second,tuples\n" + "".join(f"mine,{s},{2000 + 500 * (s % 5)}\n" for s in range(20))
    columns = "experiment,query,stream,set_point,step,rho_panes,splitting,rho_windows,pane_workers,window_workers,watts"
    steps = "".join(f"complete,skyline,mine,0.7,{i},0.9,1,0.9,1,2,0.3\n" for i in range(8))
    steps += "".join(f"complete,skyline,mine,0.9,{i},0.9,1,0.9,1,2,0.3\n" for i in range(8))
    steps += "".join(
        f"Fig. 17 control 5 s sampling 500 ms,skyline,mine,0.7,{i},0.9,1,0.9,1,2,0.3\n" for i in range(4)
    )
    steps += "".join(f"limits 2-3,skyline,mine,,{i},0.9,1,0.9,2,3,0.3\n" for i in range(8))
    steps += "".join(f"complete,skyline,unknown,0.7,{i},0.9,1,0.9,1,2,0.3\n" for i in range(8))
    for name, text in (("rates", rates), ("controller", f"{columns}\n{steps}")):
        (tmp_path / f"elastic_ppq_{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    recorded_rates.cache_clear()
    elastic_logs.logged_runs.cache_clear()
    try:
        made = elastic_logs.run(1.0, tmp_path)
        assert recorded_events("mine", 5.0, seed=1).size == 15_000
    finally:
        recorded_rates.cache_clear()
        elastic_logs.logged_runs.cache_clear()
    by_title = {t.title: t for t in made.tables}
    complete = by_title["Tables 4-5 and other set-points: log / ours"]
    assert [row[0] for row in complete.rows] == [
        "mine, skyline, set-point 0.7",
        "mine, skyline, set-point 0.9",
    ]
    assert complete.columns[1:3] == ("pane workers", "window workers")
    assert complete.rows[0][2].startswith("2 (0) / ")
    assert "idle" in complete.columns
    (short,) = by_title["Fig. 17, control interval and sampling period: log / ours"].rows
    assert short[0] == "mine, skyline, set-point 0.7: control 5 s sampling 500 ms"
    (fixed,) = by_title["Fixed threads: log / ours"].rows
    assert fixed[1].startswith("2 (0) / 2 (0)")
    (mean,) = (c for c in made.claims if c.text == "Logs: mean of pane workers in each run")
    assert mean.bound == "within a quarter of it in all 3"  # fixed threads are no finding


def test_figures_that_stand_a_column_too_far_on_are_read_where_they_belong():
    plain = elastic_log_files._columns(
        np.array([[0.9, 2.0, 1.1, 3.0, 4.0, 95.0], [0.8, 2.0, 1.0, 3.0, 5.0, 96.0]])
    )
    shifted = elastic_log_files._columns(
        np.array([[0.0, 0.9, 2.0, 1.1, 3.0, 4.0], [1.0, 0.8, 2.0, 1.0, 3.0, 5.0]])
    )
    for name in elastic_log_files.COLUMNS[:-1]:
        assert shifted[name].tolist() == plain[name].tolist()
    assert plain["watts"].tolist() == [95.0, 96.0]
    assert np.isnan(shifted["watts"]).all()


def test_other_work_slows_every_thread_by_its_share(monkeypatch):
    monkeypatch.setattr(elastic_log_files, "recorded_rates", lambda: {"Game1": np.full(60, 1000.0)})
    alone, beside = (
        elastic_log_files.simulated(elastic_log_files.LoggedRun(kind, "Game1", "skyline", None, {}), 1.0)
        for kind in ("complete", "interference 0.5")
    )
    assert beside.comparison == pytest.approx(1.5 * alone.comparison)
    assert (
        elastic_log_files.simulated(
            elastic_log_files.LoggedRun("a new one", "Game1", "skyline", None, {}), 1.0
        )
        is None
    )


def test_published_tables_are_complete():
    assert len(elastic_streams.STREAMS) == 8
    assert all(len(row) == 5 for _, *rows in elastic_streams.STREAMS.values() for row in rows)
    assert set(policies.MAKERS) == {"spark", "query", "regions"}


@pytest.mark.parametrize("plant", ["spark", "query", "regions"])
def test_policies_are_set_up_for_each_plant(plant):
    made = policies.MAKERS[plant]()
    assert "Static peak" in made
    assert len(made) >= 3


def test_every_option_beyond_the_papers_is_compared_with_the_policy_without_it():
    specs = policies_beyond.comparisons(1.0)
    assert [len(spec.policies) >= 2 for spec in specs] == [True] * 5
    made = policies_beyond.execute(policies_beyond.Pair(0.05, 2, "Mpc, both"))
    assert made["cores"] > 0


def test_tuples_follow_the_seconds_of_a_trace():
    load = Load("a test", np.concatenate([np.linspace(0, 1, 90), np.linspace(3, 4, 10)]), 4.0)
    events = policies._tuples(load, 1000.0)
    counts = np.histogram(events, bins=4, range=(0, 4))[0]
    assert counts[0] > 5 * counts[3] > 5 * counts[1] > 0
