"""Claims about the figures of a published table: a claim a column, each cell within a quarter (decision 52)."""

from collections.abc import Sequence

from penstock_lab.judging import count_near, each_near
from penstock_lab.results import ResultsPage


def claim_columns(
    report: ResultsPage,
    table: str,
    columns: Sequence[str],
    published: Sequence[Sequence[float]],
    ours: Sequence[Sequence[float]],
    fit: Sequence[str] = (),
) -> None:
    """A claim for each column, so that what is reproduced stands apart from what is not; ``fit``: columns that a constant was chosen by.

    >>> made = ResultsPage("t", "c")
    >>> claim_columns(made, "Table 1", ["threads"], [[4.0], [8.0]], [[4.5], [2.0]])
    >>> made.claims[0].text, made.claims[0].measured, made.claims[0].judged_by
    ('Table 1: threads', '4.5, 2: 1 of 2', 'each of 2 within a quarter')
    """
    for place, column in enumerate(columns):
        pairs = [(float(o[place]), float(p[place])) for o, p in zip(ours, published, strict=True)]
        told = ", ".join(f"{own:.3g}" for own, _ in pairs)
        report.claim(
            f"{table}: {column}",
            ", ".join(f"{theirs:g}" for _, theirs in pairs),
            f"{told}: {count_near(pairs)} of {len(pairs)}",
            each_near(pairs),
            fit=column in fit,
        )
