"""The page of a benchmark that is run a part at a time: what the parts before it came to is kept beside the page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock_lab.results import Claim, ResultsPage, Table


def write_page(report: ResultsPage, folder: Path, name: str, part: str | None) -> None:
    """Write the page of a whole run, or that of a part together with the parts that were run before."""
    page, kept = folder / f"{name}.md", folder / f"{name}.parts.json"
    if part is None:
        kept.unlink(missing_ok=True)
        page.write_text(report.as_markdown())
        return
    parts: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    parts[part] = _plain(report)
    kept.write_text(json.dumps(parts, indent=1))
    page.write_text(_joined(report.title, parts).as_markdown())


def _plain(report: ResultsPage) -> dict[str, Any]:
    return {
        "command": report.command,
        "seconds": report.seconds,
        "tables": [
            [t.title, list(t.columns), [[_number(cell) for cell in row] for row in t.rows], t.note]
            for t in report.tables
        ],
        "claims": [vars(c) for c in report.claims],
        "plots": [str(p) for p in report.plots],
    }


def _joined(title: str, parts: dict[str, Any]) -> ResultsPage:
    whole = ResultsPage(title, "", parts=[(p["command"], p["seconds"]) for p in parts.values()])
    for one in parts.values():
        for table in one["tables"]:
            _add(whole.tables, Table(*table))
        whole.claims += [Claim(**claim) for claim in one["claims"]]
        whole.plots += [Path(plot) for plot in one["plots"]]
    return whole


def _add(tables: list[Table], more: Table) -> None:
    """Rows of a table that an earlier part has too go below those of that part."""
    for place, table in enumerate(tables):
        if (table.title, list(table.columns), table.note) == (more.title, list(more.columns), more.note):
            tables[place] = replace(table, rows=[*table.rows, *more.rows])
            return
    tables.append(more)


def _number(cell: Any) -> Any:
    return cell.item() if hasattr(cell, "item") else cell
