"""The code on the pages: every fenced block, what is said about it, and what a command line of ours may be."""

import re
import shlex
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import typer

from penstock.cli import app
from penstock.cli.run import APPS, parse

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md") if p.parent.name != "reference"),
]

_BLOCK = re.compile(r"(?:<!-- not run: (.+?) -->\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(penstock [a-z][^`\n]*)`")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page; ``unrun`` says why nobody runs it, where that is so."""

    page: str
    line: int
    language: str
    code: str
    unrun: str

    @property
    def kafka(self) -> bool:
        """Whether it needs a broker."""
        return "127.0.0.1:9092" in self.code

    def lines(self) -> list[list[str]]:
        """The command lines of a block, as words."""
        whole = self.code.replace("\\\n", " ").splitlines()
        return [words for line in whole if (words := shlex.split(line, comments=True))]


def blocks(page: str, language: str = "") -> list[Block]:
    """The blocks of a page, in order; those of one language where it is named."""
    text = (ROOT / page).read_text()
    return [
        Block(page, text.count("\n", 0, found.start(3)) + 1, found[2], found[3], found[1] or "")
        for found in _BLOCK.finditer(text)
        if not language or found[2] == language
    ]


def inline_commands(page: str) -> list[list[str]]:
    """Calls of ``penstock`` inside sentences and tables."""
    return [shlex.split(call) for call in _INLINE.findall((ROOT / page).read_text())]


def parsed(words: list[str]) -> None:
    """Take a call apart as the command line does, without doing it; raises what the command line would tell."""
    command, rest = _walk(words[1:])
    context = command.make_context("penstock", rest)
    if command.name == "run":
        name = context.params["name"]
        parse(name, import_module(f"penstock.apps.{name}").OPTIONS, context.args)


def unknown_options(words: list[str]) -> list[str]:
    """Options of a call that the command does not have; other words may stand for something (``FILE``)."""
    command, rest = _walk(words[1:])
    known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}
    if command.name == "run":
        known |= {f"--{o}" for name in APPS for o in import_module(f"penstock.apps.{name}").OPTIONS}
    asked = [re.match(r"\[?(--[\w-]+)", word) for word in rest]
    return [found[1] for found in asked if found and found[1] not in known]


def _walk(words):
    command, rest = typer.main.get_command(app), list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not (rest and getattr(command, "commands", None) and rest[0].isalpha()), f"no command {words}"
    return command, rest
