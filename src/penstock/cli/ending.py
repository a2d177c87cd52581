"""How ``penstock`` ends where it cannot do what was asked for: one line on the error output, and a code."""

import sys
from typing import NoReturn

from rich.console import Console


def end_with(sentence: str, code: int = 2) -> NoReturn:
    """Say it and end: with code 2 for a user's mistake."""
    line = " ".join(f"penstock: {sentence}".split())
    # What users write is no markup, and two colons make no picture.
    console = Console(stderr=True, soft_wrap=True, emoji=False)
    console.print(line, style="red", markup=False, highlight=False)
    sys.exit(code)
