"""Quick looks: they make no claim about a size that they do not have, and a part without a small version says so."""

from dataclasses import replace

import pytest

from penstock.core.errors import PenstockError
from penstock_lab.benches import flow, growth, kernels, latency, query, windows
from penstock_lab.benches.chaos import Tally, page_of
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage


def test_a_quick_page_leaves_out_claims_about_the_full_size():
    for quick, texts in ((True, ["equal"]), (False, ["equal", "fast"])):
        page = ResultsPage("Title", "penstock bench x", quick=quick)
        page.claim("equal", "yes", "yes", True)
        page.claim("fast", ">= 2", "3", True, full=True)
        assert [c.text for c in page.claims] == texts
        assert ("claims about the full size are left out" in page.as_markdown()) == quick


def test_a_quick_look_is_at_one_part():
    assert parts_to_run(None, ("a", "b"), False, ("b",)) == ["a", "b"]
    assert parts_to_run(None, ("a", "b", "c"), True, ("b", "c")) == ["b"]
    assert parts_to_run("c", ("a", "b", "c"), True, ("b", "c")) == ["c"]
    with pytest.raises(PenstockError, match="no quick version"):
        parts_to_run("a", ("a", "b"), True, ("b",))
    with pytest.raises(PenstockError, match="Unknown part"):
        parts_to_run("d", ("a", "b"), True, ("b",))


@pytest.mark.parametrize(
    ("bench", "part"), [(query, "overlap"), (query, "kills"), (flow, "organic"), (windows, "python")]
)
def test_parts_that_take_minutes_have_no_quick_version(bench, part, tmp_path):
    with pytest.raises(PenstockError, match="no quick version"):
        bench.run(quick=True, folder=tmp_path, part=part)


@pytest.mark.parametrize("bench", [query, flow, growth, latency, windows])
def test_what_has_a_quick_version_is_a_part(bench):
    assert set(bench.QUICK_PARTS) <= set(bench.PARTS)


@pytest.mark.parametrize(("second", "grows"), [(3.0, True), (1.5, False)])
def test_a_lead_that_falls_between_does_not_grow_with_the_overlap(second, grows, tmp_path, monkeypatch):
    page = ResultsPage("Title", "penstock bench query")
    bench = query.QueryBench(tmp_path, replace(query.FULL, overlaps=(1, 2, 5)), page, tmp_path)
    loads = iter([[2.0, second, 4.0], [1.0] * 6])
    monkeypatch.setattr(bench, "file_run", lambda *_, **__: {})
    monkeypatch.setattr(bench, "session", lambda _: [{"load": load} for load in next(loads)])
    monkeypatch.setattr(query, "plot_growth", lambda *_: None)
    bench.overlap()
    (claim,) = page.claims
    assert (claim.holds, claim.judged_by) == (grows, "each above the one before")


def test_quick_kernels_are_compared_but_not_timed_against_a_goal(tmp_path):
    page = kernels.run(quick=True, folder=tmp_path)
    assert {c.text for c in page.claims} == {
        "all methods give the same rows",
        "latest dominators equal those of the plain loop",
    }


def test_quick_grains_are_not_held_to_a_rate(tmp_path):
    page = flow.run(quick=True, folder=tmp_path, part="grains")
    assert page.tables
    assert not page.claims


def test_a_few_kills_are_judged_by_what_they_did_not_by_their_number():
    tally = Tally()
    tally.kills["driver"] = 9
    quick, full = (page_of({"in-process-jobs": tally}, quick=q) for q in (True, False))
    assert [(c.expected, c.holds) for c in quick.claims] == [("0 problems", True)]
    assert [c.holds for c in full.claims if c.text.startswith("in-process")] == [False]


def test_a_part_that_fails_in_any_way_leaves_the_others_their_results():
    page = ResultsPage("Title", "penstock bench x")

    def fails() -> None:
        raise IndexError("tuple index out of range")

    page.attempt("broken", fails)
    assert [(c.text, c.holds) for c in page.claims] == [("the part 'broken' runs to its end", False)]
    assert "IndexError: tuple index out of range" in page.claims[0].measured
