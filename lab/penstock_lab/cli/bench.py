"""``penstock bench``: performance, side by side with named alternatives in the same run."""

import inspect
import json
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from penstock.core.errors import PenstockError, unknown
from penstock.core.output_folder import output_folder
from penstock_lab.part_pages import write_page
from penstock_lab.results import ResultsPage

#: Benchmark -> what it measures; the module ``penstock_lab.benches.NAME`` has ``run(quick: bool, folder: Path) -> Report``.
BENCHES: dict[str, str] = {
    "fuzz": "rows of every kind of nonsense through queries and flows, each accounted for",
    "flow": "flows against hand-written Structured Streaming jobs, and laid out otherwise",
    "rescale": "live rescaling of a flow against stopping and restarting a query",
    "autoscale": "ways to scale a query on a real cluster under bursts, Spark's own allocation among them",
    "autopilot": "Autopilot on recorded and drawn loads, beside the cheapest policy in hindsight",
    "chaos": "runs that are killed in every way, against an oracle",
    "control": "what one decision costs: policies, searches, guards, journal",
    "elastic": "policies on live Spark against fixed numbers of workers: queries, flows, log analysis",
    "growth": "how cost grows with workers, overlap, attributes and keys in state",
    "latency": "how soon windows are answered: resident workers against Spark jobs",
    "interference": "an autoscaled query beside another load on the same machine",
    "hosts": "resident workers on two hosts (network namespaces), a checkpoint in an S3 server, cuts and kills",
    "kafka": "from topic to topic and table against queries by hand; kills of driver and broker; a backlog worked off",
    "kernels": "preference kernels against moocore and paretoset",
    "models": "MAP fitting and queue solvers: speed and accuracy",
    "nexmark": "queries of Nexmark: flows beside Spark's own operators, and every policy under four loads",
    "query": "streaming preference queries against a sliding window written by hand, and recovery from kills",
    "windows": "aggregates over sliding windows against Spark's own, with native functions and with a Python one",
    "traffic": "arrival generators and trace statistics",
    "sim": "simulator speed and control cost",
    "soak": "what grows while a query and a flow run for long",
}

#: Comparisons on live Spark whose runs differ from each other; those of other benchmarks are kept one by one, or are not timed.
LIVE = ("flow", "growth", "interference", "latency", "query", "rescale", "windows")
#: How often these are run unless told.
RUNS = 3

#: Parts with a page of their own, which their benchmark's page does not have.
PART_PAGES = {("models", "unseen"): "models-unseen"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="bench", help="Measure performance: " + "; ".join(f"{k} ({v})" for k, v in BENCHES.items())
    )(bench)


def page_of(name: str, part: str | None) -> tuple[str, str | None]:
    """The page of a benchmark or a part, and the part that it is there; None where it is the whole page.

    >>> page_of("elastic", "logs"), page_of("models", "unseen")
    (('elastic', 'logs'), ('models-unseen', None))
    """
    own = PART_PAGES.get((name, part or ""))
    return (own, None) if own else (name, part)


def _made(runs: int, run: Callable[..., ResultsPage], **given: Any) -> ResultsPage:
    from penstock_lab.page_runs import run_often  # it loads what computes

    return run(**given) if runs == 1 else run_often(runs, run, **given)


def bench(
    name: str = typer.Argument(..., help="Which benchmark: " + ", ".join(BENCHES)),
    quick: bool = typer.Option(False, help="A small version, for a look in under a minute."),
    as_json: bool = typer.Option(False, "--json", help="Print the results as JSON."),
    part: str | None = typer.Option(
        None,
        help="One part alone, where a benchmark has parts (chaos, flow, kafka, windows, ...); the page keeps the parts run before.",
    ),
    minutes: float | None = typer.Option(
        None,
        help="How long, where a benchmark can be long or short (soak, chaos), or how long to begin runs, where the next call "
        "goes on (autoscale, elastic).",
    ),
    runs: int | None = typer.Option(
        None,
        min=1,
        help="How often, each in a process of its own, with the spread of all figures; three times unless told, but for a quick "
        f"look ({', '.join(LIVE)}).",
    ),
    output: Path = typer.Option(
        Path("penstock-runs/bench"), "--output", "-o", help="Folder for the page and its plots."
    ),
) -> None:
    """Measure performance side by side."""
    if name not in BENCHES:
        raise unknown("benchmark", name, BENCHES)
    output_folder(output)
    start = time.perf_counter()
    module = import_module(f"penstock_lab.benches.{name}")
    run = module.run
    given = {word: value for word, value in (("part", part), ("minutes", minutes)) if value is not None}
    strange = [word for word in given if word not in inspect.signature(run).parameters]
    if strange:
        raise PenstockError(f"The benchmark '{name}' knows no --{strange[0]}; leave it out.")
    if runs is not None and name not in LIVE:
        raise PenstockError(f"The benchmark '{name}' knows no --runs; leave it out.")
    often = runs or (1 if quick or name not in LIVE else RUNS)
    report = _made(often, run, quick=quick, folder=output, **given)
    # A page that is printed again from runs that were kept has their seconds.
    report.seconds = max(report.seconds, time.perf_counter() - start)
    # Some benchmarks keep what their parts came to by themselves; those that name PARTS leave it to the page.
    parted = hasattr(module, "PARTS")
    page, own = page_of(name, part if parted else None)
    # A quick look at one part has a page of its own: that of whole runs stays as it is.
    write_page(report, output, page + ("-quick" if quick and parted else ""), own)
    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=1))
    else:
        report.print(Console())
