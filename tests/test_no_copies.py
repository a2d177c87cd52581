"""No two places of the package share six lines: what is the same is written once.

Lines are compared without their indentation. Left out are blank lines, comments, lines of nothing but punctuation, and
imports, which may be the same wherever the same things are used. Text in docstrings counts.
"""

import ast
from pathlib import Path

import pytest

import penstock
import penstock_lab

LINES = 6


def lines_of(source: str) -> list[tuple[int, str]]:
    """(line number, text) of the lines that count."""
    imports = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, node.end_lineno + 1)
    }
    stripped = ((number, line.strip()) for number, line in enumerate(source.splitlines(), 1))
    return [
        (number, line)
        for number, line in stripped
        if number not in imports and not line.startswith("#") and any(c.isalnum() for c in line)
    ]


def copies(sources: dict[str, str]) -> list[str]:
    """Pairs of places that share so many lines, each told where it begins."""
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    found = []
    for name, source in sources.items():
        lines = lines_of(source)
        for at in range(len(lines) - LINES + 1):
            run = tuple(line for _, line in lines[at : at + LINES])
            place = (name, lines[at][0])
            first = seen.setdefault(run, place)
            if first != place:
                found.append(f"{first[0]}:{first[1]} and {name}:{place[1]} begin with the same: {run[0]}")
    return found


def test_six_lines_that_stand_in_two_files_or_twice_in_one_are_found():
    lines = "\n".join(f"value_{n} = {n}" for n in range(LINES))
    assert len(copies({"a.py": lines, "b.py": "import os\n\n" + lines})) == 1
    assert len(copies({"a.py": lines + "\n# twice\n" + lines})) == 1
    shorter = "\n".join(lines.splitlines()[1:])
    assert copies({"a.py": lines, "b.py": shorter}) == []


def test_what_is_imported_may_be_the_same():
    block = "from x import (\n" + "".join(f"    name_{n},\n" for n in range(9)) + ")\n"
    assert copies({"a.py": block, "b.py": block}) == []


@pytest.mark.parametrize("package", [penstock, penstock_lab])
def test_no_two_places_of_a_package_share_six_lines(package):
    root = Path(package.__file__).parent
    sources = {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*.py"))}
    assert len(sources) > 50
    assert copies(sources) == []
