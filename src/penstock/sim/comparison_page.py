"""One self-contained HTML page of a comparison: the advice, the figures of every policy, and the picture."""

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.sim.closed_loop import ClosedLoopResult
from penstock.sim.plot import plot_outcomes

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1d2733;margin:2rem auto;max-width:66rem;padding:0 1rem}
h1{font-size:1.5rem} .advice{border-left:4px solid #1b6ca8;padding:.4rem .9rem;background:#f2f7ff}
table{border-collapse:collapse;width:100%;font-size:.88rem} th{text-align:right;border-bottom:2px solid #c4ccd6}
td{text-align:right;font-variant-numeric:tabular-nums} td:first-child,th:first-child{text-align:left}
td,th{padding:.25rem .6rem .25rem 0} tr+tr td{border-top:1px solid #eceff3} img{max-width:100%;height:auto}
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
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><p class='advice'>{escape(advice)}</p>"
        f"<table>{table}</table><h2>Load, capacity and response</h2><img alt='load, capacity and response over time' "
        f"src='data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}'></body></html>"
    )
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise PenstockError(f"Cannot write {page} ({error.strerror}); choose another place.") from None
    return page


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
