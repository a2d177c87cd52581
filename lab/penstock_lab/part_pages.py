"""Benchmarks that are run a part at a time: which parts, and one page for all, with what the parts before came to kept beside it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError, unknown
from penstock_lab.results import Claim, ResultsPage, Table


def parts_to_run(part: str | None, parts: Iterable[str], quick: bool, small: Sequence[str]) -> list[str]:
    """The part that was asked for, or all; a quick look is at one, and only ``small`` ones fit into a minute.

    >>> parts_to_run(None, ("rates", "kills"), True, ("rates",))
    ['rates']
    """
    every = list(parts)
    if part is not None and part not in every:
        raise unknown("part", part, every)
    if quick and part is not None and part not in small:
        raise PenstockError(
            f"The part '{part}' has no quick version; leave --quick out, or look at '{small[0]}'."
        )
    if part is not None:
        return [part]
    return list(small[:1]) if quick else every


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
        "plots": [p.name for p in report.plots],
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
