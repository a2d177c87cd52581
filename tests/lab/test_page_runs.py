"""Several runs of one benchmark on one page."""

from penstock_lab.page_runs import over_runs, run_often
from penstock_lab.results import ResultsPage, Table


def page(rate: float, holds: bool = True, rows: int = 1) -> ResultsPage:
    made = ResultsPage("A test", "penstock bench test", seconds=10.0)
    made.tables.append(Table("rates", ("way", "keys", "rows/s"), [("ours", 500, rate)] * rows, "Timed."))
    made.claim("ours is faster", "at least 2 times", f"{rate:g}", holds)
    return made


def measured(quick: bool) -> ResultsPage:
    return page(5.0 if quick else 7.0)


def test_figures_have_the_spread_of_their_runs_and_constants_stay():
    whole = over_runs([page(1.0), page(2.0), page(3.0)])
    assert whole.tables[0].rows == [["ours", 500, "2 ± 1"]]
    assert whole.tables[0].note == "Mean ± standard deviation of 3 runs. Timed."
    assert (whole.command, whole.seconds) == ("penstock bench test --runs 3", 30.0)


def test_a_claim_passes_only_where_it_holds_in_every_run():
    (claim,) = over_runs([page(1.0), page(2.0, holds=False)]).claims
    assert not claim.holds
    assert (claim.measured, claim.judged_by) == ("1; 2", "at least 2 times, in every run")
    assert over_runs([page(1.0), page(2.0)]).claims[0].holds


def test_a_claim_that_one_run_did_not_make_says_so():
    silent = page(2.0)
    silent.claims.clear()
    assert over_runs([page(1.0), silent]).claims[0].measured == "1 (1 of 2 runs)"


def test_tables_of_other_shapes_stay_apart():
    titles = [table.title for table in over_runs([page(1.0), page(2.0, rows=2)]).tables]
    assert titles == ["rates, run 1", "rates, run 2"]


def test_every_run_is_a_process_of_its_own():
    whole = run_often(2, measured, quick=True)
    assert whole.tables[0].rows == [["ours", 500, 5.0]]
