"""One self-contained HTML page of a comparison: the advice, the figures of every policy, and the picture."""

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.page.document import part
from penstock.sim.closed_loop import ClosedLoopResult
from penstock.sim.plot import plot_outcomes

#: Beside the style of the live page, whose colours it takes.
_STYLE = """
.advice{border-left:4px solid var(--a);padding:.4rem .9rem;background:var(--made)} img{max-width:100%;height:auto}
td,th{text-align:right;font-variant-numeric:tabular-nums} td:first-child,th:first-child{text-align:left}
"""


def write_comparison(
    page: Path,
    outcomes: Sequence[ClosedLoopResult],
    rows: Sequence[Sequence[str]],
    *,
    columns: Sequence[str],
    title: str,
    advice: str,
    target: float,
    label: str,
) -> Path:
    """Write the page; ``rows`` are the figures as they are shown on the terminal, under ``columns``."""
    picture = BytesIO()
    plot_outcomes(outcomes, picture, title=title, target=target, label=label)
    table = _row(columns, "th") + "".join(_row(row, "td") for row in rows)
    html = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width,initial-scale=1'><title>{escape(title)} - Penstock</title>"
        f"<link rel='icon' href='data:,'><style>{part('page.css')}{_STYLE}</style></head>"
        f"<body><header><h1>{escape(title)}</h1></header><main><p class='advice'>{escape(advice)}</p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='The figures of every policy'>"
        f"<table>{table}</table></div><h2>Load, capacity and response</h2><img alt='load, capacity and response over time' "
        f"src='data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}'></main></body></html>"
    )
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise PenstockError(f"Cannot write {page} ({error.strerror}); choose another place.") from None
    return page


def _row(cells: Sequence[str], tag: str) -> str:
    start = "th scope='col'" if tag == "th" else tag
    return "<tr>" + "".join(f"<{start}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
