"""What a benchmark or a reproduced experiment returns: tables, claims that were checked, plots.

One value serves the terminal, ``--json`` and the pages under ``docs/results``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Rows under named columns; cells are numbers or words."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence that the run itself checked: what was expected, what was measured, whether it held."""

    text: str
    expected: str
    measured: str
    holds: bool


@dataclass
class ResultsPage:
    """The outcome of one benchmark or experiment."""

    title: str
    command: str
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    seconds: float = 0.0

    def claim(self, text: str, expected: str, measured: str, holds: bool) -> None:
        """Record a checked claim."""
        self.claims.append(Claim(text, expected, measured, bool(holds)))

    def as_json(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "title": self.title,
            "command": self.command,
            "seconds": round(self.seconds, 1),
            "tables": [
                {
                    "title": t.title,
                    "rows": [dict(zip(t.columns, map(_plain, row), strict=True)) for row in t.rows],
                    "note": t.note,
                }
                for t in self.tables
            ],
            "claims": [vars(c) for c in self.claims],
            "plots": [str(p) for p in self.plots],
        }

    def as_markdown(self) -> str:
        """A page for ``docs/results``."""
        lines = [f"# {self.title}", "", f"Made by `{self.command}` in {self.seconds:.0f} s.", ""]
        for table in self.tables:
            lines += [f"## {table.title}", "", "| " + " | ".join(table.columns) + " |"]
            lines += ["|" + "---|" * len(table.columns)]
            lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in table.rows]
            lines += ["", *([table.note, ""] if table.note else [])]
        if self.claims:
            lines += ["## Claims", "", "| claim | expected | measured | |", "|---|---|---|---|"]
            lines += [f"| {c.text} | {c.expected} | {c.measured} | {_verdict(c)} |" for c in self.claims]
            lines += [""]
        lines += [f"![{p.stem}]({p.name})" for p in self.plots]
        return "\n".join(lines).rstrip() + "\n"

    def print(self, console: Console) -> None:
        """Tables and claims on the terminal."""
        console.print(f"\n[bold]{self.title}[/bold]  ({self.seconds:.0f} s)")
        for table in self.tables:
            shown = RichTable(title=table.title, title_justify="left")
            for index, column in enumerate(table.columns):
                shown.add_column(column, justify="left" if index == 0 else "right")
            for row in table.rows:
                shown.add_row(*map(_cell, row))
            console.print(shown)
            if table.note:
                console.print(table.note, style="dim")
        for c in self.claims:
            style = "green" if c.holds else "yellow"
            console.print(
                f"[{style}]{_verdict(c)}[/{style}]  {c.text}: expected {c.expected}, measured {c.measured}"
            )
        for plot in self.plots:
            console.print(f"plot: {plot}")


def announce(text: str) -> None:
    """Tell on the terminal what a long benchmark is about to do; standard output stays for the results."""
    Console(stderr=True, soft_wrap=True).print(
        f"{datetime.now():%H:%M:%S}  {text}", style="dim", markup=False
    )


def _verdict(claim: Claim) -> str:
    return "pass" if claim.holds else "differs"


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _cell(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return str(value).replace("|", "\\|")
    if isinstance(value, int) or (value == int(value) and abs(value) >= 1000):
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
