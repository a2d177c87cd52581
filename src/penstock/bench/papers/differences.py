"""Why a claim differs, beside the claims that do."""

from collections.abc import Mapping

from penstock.bench.report import Report, Table


def explain(report: Report, reasons: Mapping[str, str]) -> None:
    """Add a table with a reason for each claim that did not hold; reasons are found by how the claim begins.

    >>> made = Report("t", "c")
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
