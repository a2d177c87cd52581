"""Why a claim differs, beside the claims that do."""

from collections.abc import Mapping, Sequence

from penstock_lab.results import ResultsPage, Table


def explain(report: ResultsPage, reasons: Mapping[str, str]) -> None:
    """Add a table with a reason for each claim that did not hold; reasons are found by how the claim begins.

    >>> made = ResultsPage("t", "c")
    >>> made.claim("Fig. 1: more", "yes", "no", False)
    >>> explain(made, {"Fig. 1": "another machine"})
    >>> made.tables[0].rows
    [['Fig. 1: more', 'another machine']]
    """
    rows = []
    for claim in report.claims:
        if not claim.holds:
            known = [key for key in reasons if claim.text.startswith(key)]
            rows.append([claim.text, reasons[max(known, key=len)] if known else "not understood yet"])
    if rows:
        report.tables.append(Table("Where it differs, and why", ("claim", "why"), rows))


#: What was chosen, on what grounds, and what else was tried with what result.
Choice = tuple[str, str, str]


def disclose(report: ResultsPage, choices: Sequence[Choice]) -> None:
    """Add a table of the choices that the paper leaves open, so that a reader sees which claims hang on them.

    >>> made = ResultsPage("t", "c")
    >>> disclose(made, [("length", "their logs", "shorter: claim 1 differs")])
    >>> made.tables[0].rows
    [['length', 'their logs', 'shorter: claim 1 differs']]
    """
    columns = ("choice", "grounds", "what else was tried, and what it gave")
    report.tables.append(Table("How the set-up was chosen", columns, [list(choice) for choice in choices]))
