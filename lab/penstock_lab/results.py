"""What a benchmark or a reproduced experiment returns: tables, claims that were checked, plots.

One value serves the terminal, ``--json`` and the pages under ``docs/results``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from penstock_lab.judging import Judged


@dataclass(frozen=True)
class Table:
    """Rows under named columns; cells are numbers or words."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence that the run itself checked: what was expected, the bound it is judged by, what was measured.

    ``fit``: a constant of ours was chosen with this figure in view, so that it shows no more than that the model can.
    """

    text: str
    expected: str
    measured: str
    holds: bool
    bound: str = ""
    fit: bool = False

    @property
    def verdict(self) -> str:
        """``pass``, ``fit`` (it holds, since a constant was chosen for it) or ``differs``."""
        return "differs" if not self.holds else "fit" if self.fit else "pass"

    @property
    def judged_by(self) -> str:
        """The bound; where none was given, what was expected is the bound."""
        return self.bound or self.expected


@dataclass
class ResultsPage:
    """The outcome of one benchmark or experiment."""

    title: str
    command: str
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    seconds: float = 0.0
    #: Commands with their seconds, where the page is that of parts run one at a time.
    parts: list[tuple[str, float]] = field(default_factory=list)
    #: A small version was run: claims about the full size are left out.
    quick: bool = False

    @property
    def made_by(self) -> str:
        """Which command made this, and how long it took."""
        made = self.parts or [(self.command, self.seconds)]
        told = "Made by " + ", ".join(f"`{command}` in {seconds:.0f} s" for command, seconds in made) + "."
        return told + " A quick look: claims about the full size are left out." * self.quick

    def claim(
        self,
        text: str,
        expected: str,
        measured: str,
        holds: bool | Judged,
        fit: bool = False,
        full: bool = False,
    ) -> None:
        """Record a checked claim; a plain truth value says that ``expected`` itself is the bound.

        ``full``: only the full size can show it, so that a quick page does not claim it.
        """
        if full and self.quick:
            return
        found = holds if isinstance(holds, Judged) else Judged(bool(holds), "")
        self.claims.append(Claim(text, expected, measured, found.holds, found.bound, fit))

    def attempt(self, part: str, measure: Callable[[], None]) -> None:
        """Run a part; one that fails takes not the others' results with it."""
        announce(part)
        try:
            measure()
        except Exception as error:  # noqa: BLE001 - whatever it was, the page says it and the other parts go on
            announce(f"{type(error).__name__}: {error}")
            why = (str(error).strip().splitlines() or ["no word"])[-1]
            self.claim(f"the part '{part}' runs to its end", "yes", f"{type(error).__name__}: {why}", False)

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
            "claims": [vars(c) | {"bound": c.judged_by, "verdict": c.verdict} for c in self.claims],
            "plots": [str(p) for p in self.plots],
        }

    def as_markdown(self) -> str:
        """A page for ``docs/results``."""
        lines = [f"# {self.title}", "", self.made_by, ""]
        for table in self.tables:
            lines += [f"## {table.title}", "", "| " + " | ".join(table.columns) + " |"]
            lines += ["|" + "---|" * len(table.columns)]
            lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in table.rows]
            lines += ["", *([table.note, ""] if table.note else [])]
        if self.claims:
            lines += [
                "## Claims",
                "",
                "| claim | expected | judged by | measured | |",
                "|---|---|---|---|---|",
            ]
            lines += [
                f"| {c.text} | {c.expected} | {c.judged_by} | {c.measured} | {c.verdict} |"
                for c in self.claims
            ]
            lines += ["", *_meaning(self.claims)]
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
            style = {"pass": "green", "fit": "cyan", "differs": "yellow"}[c.verdict]
            bound = f" (judged by {c.bound})" if c.bound else ""
            console.print(
                f"[{style}]{c.verdict}[/{style}]  {c.text}: expected {c.expected}{bound}, measured {c.measured}"
            )
        for plot in self.plots:
            console.print(f"plot: {plot}")


def announce(text: str) -> None:
    """Tell on the terminal what a long benchmark is about to do; standard output stays for the results."""
    Console(stderr=True, soft_wrap=True).print(
        f"{datetime.now():%H:%M:%S}  {text}", style="dim", markup=False
    )


def _meaning(claims: Sequence[Claim]) -> list[str]:
    if not any(c.verdict == "fit" for c in claims):
        return []
    return ["*fit*: it holds, but a constant of ours was chosen with this figure in view.", ""]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _cell(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return str(value).replace("|", "\\|")
    if isinstance(value, int) or (value == int(value) and abs(value) >= 1000):
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
