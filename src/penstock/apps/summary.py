"""What an application tells when it ends: figures, a small table a person can check, and what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Option:
    """One ``--name value`` of an application."""

    default: str
    help: str


@dataclass(frozen=True)
class Summary:
    """The end of a run: one value for the terminal and for ``--json``."""

    app: str
    #: Figures of the run: seconds, rows, batches, rows a second, ...
    figures: Mapping[str, Any] = field(default_factory=dict)
    #: The answer itself, as rows under columns.
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    #: How to check the answer by hand, and anything a reader should know.
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "app": self.app,
            **self.figures,
            "answer": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
        }

    def print(self, console: Console) -> None:
        """The summary on the terminal."""
        figures = ", ".join(
            f"{name.replace('_', ' ')} {_shown(value)}" for name, value in self.figures.items()
        )
        # Texts, since cells and paths are what users have: a word in brackets is no markup.
        console.print(Text.assemble((self.app, "bold"), f": {figures}"))
        if self.columns:
            table = Table()
            for index, column in enumerate(self.columns):
                table.add_column(Text(column), justify="left" if index == 0 else "right")
            for row in self.rows:
                table.add_row(*(Text(_shown(value)) for value in row))
            console.print(table)
        for note in self.notes:
            console.print(note, style="dim", markup=False, emoji=False)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
