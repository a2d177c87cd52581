"""Every picture looks well on light and dark pages: what is drawn, by whom, and what the style promises."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from typer.testing import CliRunner

from drawn import check, contrast, legends
from penstock.cli import app
from penstock.models import fit_kpc
from penstock.models.comparison import LoadComparison
from penstock.models.plot import plot_fit
from penstock.picture import COLOURS, INK, picture
from penstock.traffic import describe, map2
from penstock.traffic.plot import plot_trace

ROOT = Path(__file__).parent.parent

#: White, and the dark grounds of the site, of the live page and of a well-known place for source code.
GROUNDS = {"#ffffff": 3.4, "#1e2129": 3.0, "#12181f": 3.4, "#0d1117": 3.4}


@pytest.mark.parametrize("colour", [INK, *COLOURS])
def test_every_colour_stands_out_from_light_and_dark(colour):
    for ground, least in GROUNDS.items():
        assert contrast(colour, ground) >= least, ground


def test_only_one_module_loads_matplotlib():
    """So nothing can be drawn in another style."""
    loads = re.compile(r"^\s*(?:from|import) (?:matplotlib|mpl_toolkits|pylab)", re.MULTILINE)
    found = [p for folder in ("src", "lab", "examples") for p in (ROOT / folder).rglob("*.py")]
    assert [p.name for p in found if loads.search(p.read_text())] == ["picture.py"]


def test_nobody_sets_a_colour_of_their_own():
    own = re.compile(r"(?:color|colors|facecolor|c)=[\[(]?[\"']")
    found = [p for folder in ("src", "lab") for p in (ROOT / folder).rglob("*.py")]
    drawing = [
        p for p in found if "penstock.picture import" in p.read_text() or "import draw" in p.read_text()
    ]
    assert len(drawing) > 10
    assert [p.name for p in drawing if own.search(p.read_text())] == []


def test_legends_axes_and_ground(drawn, tmp_path):
    with picture(tmp_path / "a.png", 2, 2, size=(9, 6), sharex=True, title="a title") as axes:
        for number, axis in enumerate(axes.flat):
            for curve in range(7 * (number < 2)):
                axis.plot([0, 1, 2], [0, 1 + curve, number], label=f"a rather long word for curve {curve}")
            axis.plot([0, 2], [-number, 1])
            axis.set(xlabel="seconds", ylabel="rows", title="a plot")
            axis.legend(["x"], loc="center")  # whoever asks for one over the curves does not get it
        axes[1, 1].twinx().plot([0, 1], [0, 5], label="on the right")
    (figure,) = drawn
    assert len(legends(figure)) == 2, "the same words are said once"
    assert axes[0, 0].get_ylim()[0] == 0
    assert axes[0, 1].get_ylim()[0] < 0, "what is negative is shown"
    assert imread(tmp_path / "a.png")[0, 0, 3] == 0, "the ground is transparent"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.png"]


def test_a_legend_over_a_curve_and_an_axis_below_zero_are_found():
    figure = Figure(layout="constrained")
    axis = figure.subplots()
    axis.plot([1, 2], [1, 2], label="a curve")
    axis.legend()
    with pytest.raises(AssertionError, match="over a curve"):
        check(figure)
    axis.get_legend().remove()
    axis.set_ylim(-1, 2)
    with pytest.raises(AssertionError, match="below zero"):
        check(figure)


def test_the_plots_of_the_package_are_drawn_so(drawn, tmp_path):
    """Those of the papers and of the demo are drawn, and so held to it, in their own tests."""
    arrival = map2(500.0, 50.0).sample(20.0, 1)
    plot_trace(tmp_path / "trace.png", arrival, describe(arrival), "a trace")
    rows = [LoadComparison(u, 1.0, 2.0, 0.5, 0.6, 0.7, (0.9,), (1.9,)) for u in (0.5, 0.7)]
    plot_fit(tmp_path / "fit.png", np.diff(arrival), fit_kpc(np.diff(arrival)[:3000]), rows, "a fit")
    call = ["simulate", "--trace", "poisson:rate=300", "--seconds", "60", "-p", "Ds2", "-p", "Static"]
    assert CliRunner().invoke(app, [*call, "--plot", str(tmp_path / "sim.png")]).exit_code == 0
    assert len(drawn) == 3


def test_the_plots_of_the_benches_are_drawn_so(drawn, tmp_path):
    pytest.importorskip("penstock_lab", reason="penstock-lab is not installed")
    from penstock_lab.benches import autoscale, models, query_plots, soak, traffic_plot

    load = [{"load": 0.2}, {"load": 2.0}]
    query_plots.plot_rates([10, 100], load, [10, 1000], load, tmp_path / "rates.png")
    query_plots.plot_growth([1, 2], {"one": [0.1, 2.0], "two": [0.3, 0.2]}, "panes", tmp_path / "growth.png")
    samples = [{"time": 60.0 * t, **dict.fromkeys(soak.MEASURES, 1.0 + t)} for t in range(5)]
    soak._plot(samples, tmp_path / "soak.png")
    rows = [("a trace of packets", 0, 0, 0, 0.5, 0.9, 1.1, 2.0)] * 6
    models._plot(tmp_path, rows, ["MAP", "M/G/1", "Kingman", "worst of five"])
    curve = (np.arange(10.0), np.ones(10), np.linspace(1, 3, 5), np.full(20, 600.0))
    loads = SimpleNamespace(parts=[("one", 4.0, 6.0)], names=["one"])
    autoscale._plot(tmp_path / "autoscale.png", {"a way": curve, "another": curve}, loads, 3.0)
    arrival = map2(500.0, 50.0).sample(20.0, 1)
    traffic_plot.plot_scales(tmp_path / "scales.png", {"one": arrival, "two": arrival})
    assert len(drawn) == 6
