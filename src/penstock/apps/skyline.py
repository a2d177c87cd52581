"""The demo: the best tuples of the last second, five times a second, over a bursty stream that is out of order."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

import penstock as ps
from penstock.apps.flow_app import tell_page
from penstock.apps.skyline_plot import plot_run
from penstock.apps.summary import Option, Summary
from penstock.core.errors import PenstockError, unknown
from penstock.core.journal import Journal
from penstock.core.output_folder import output_folder
from penstock.preference.preference import Preference
from penstock.traffic.spec import StreamSpec

HELP = "windows of a preference query over a bursty, out-of-order stream, with a live table and a plot"

OPTIONS: Mapping[str, Option] = {
    "query": Option("skyline", "skyline, k-dominant, top-delta or top-k"),
    "k": Option("6", "k of k-dominant, delta of top-delta or k of top-k"),
    "window": Option("1 second", "length of the windows"),
    "slide": Option("200 milliseconds", "distance of their starts"),
    "rate": Option("10000", "tuples a second"),
    "dispersion": Option(
        "2000", "index of dispersion of the arrivals: 1 is Poisson, thousands are severe bursts"
    ),
    "dims": Option("8", "attributes a tuple"),
    "distribution": Option("independent", "independent, correlated or anticorrelated"),
    "delay": Option("0.2", "mean delay of a tuple in seconds: how much out of order"),
    "seed": Option("1", "seed of the stream"),
    "disorder": Option(
        "kslack", "kslack, adaptive (1 % may be lost), in-order, or a fixed delay like '2 seconds'"
    ),
    "splitting": Option("AS_PID", "pane strategy: AS_PID, AS, PB_RR or TB_RR"),
    "windows": Option("SHARED", "window strategy: SHARED, WIN_RR, WIN_FB or WIN_FB_MERGE"),
    "policy": Option(
        "none", "scaling policy of the workers: none, Fuzzy, Threshold, ...; see docs/policies.md"
    ),
    "trigger": Option("1 second", "how often a micro-batch starts"),
    "master": Option("local[*]", "Spark master"),
    "source": Option("traffic", "traffic (generated), or any format of Spark's: kafka, parquet, rate, ..."),
    "source-options": Option("", "options of that source as name=value,name=value (path=... for files)"),
    "source-schema": Option("", "schema of a file source, as 'name type, name type'"),
    "time": Option("event_time", "column of the event time"),
    "minimize": Option(
        "", "columns to minimise, with commas; by default a0, a1, ... of the generated stream"
    ),
    "maximize": Option("", "columns to maximise, with commas"),
    "page": Option("", "address of the live page, such as 127.0.0.1:8765"),
    "output": Option("", "folder of the run; penstock-runs/skyline-TIME by default"),
}


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run for so many seconds and sum up."""
    query, policy = _query(options), _policy(options["policy"])
    if options["source"] == "traffic":
        StreamSpec.parse(_generated(options)).build()  # what cannot be generated is told before Spark starts
    folder = _folder(options["output"])
    from penstock.spark import running, session

    shown = Board(seconds)
    with running(session(options["master"], app="penstock skyline")) as spark:
        frame = _source(spark, options, seconds)
        run = query.start(
            frame,
            output=folder / "results",
            checkpoint=folder / "checkpoint",
            trigger=options["trigger"],
            policy=policy,
            period=2.5,  # an application is watched for a minute or two
            page=options["page"] or None,
        )
        tell_page(run)
        run.listen(shown.take)
        shown.begin()
        interrupted = False
        with shown.live():
            try:
                while time.monotonic() < shown.end and not run.await_termination(timeout=0.5):
                    pass
            except KeyboardInterrupt:
                interrupted = True
        run.stop()
        progress = run.progress
    return _summary(folder, run.journal, progress, interrupted)


def _query(options: Mapping[str, str]) -> ps.PreferenceQuery:
    return ps.PreferenceQuery(
        _preference(options),
        time=options["time"],
        window=options["window"],
        slide=options["slide"],
        disorder=_disorder(options["disorder"]),
        splitting=options["splitting"],
        window_strategy=options["windows"],
    )


def _preference(options: Mapping[str, str]) -> Preference:
    smaller = [c.strip() for c in options["minimize"].split(",") if c.strip()]
    larger = [c.strip() for c in options["maximize"].split(",") if c.strip()]
    if not smaller and not larger:
        smaller = [f"a{i}" for i in range(_whole(options, "dims"))]
    attributes = [*map(ps.minimize, smaller), *map(ps.maximize, larger)]
    kind, k = options["query"], _whole(options, "k")
    if kind == "skyline":
        return ps.skyline_of(*attributes)
    if kind == "k-dominant":
        return ps.k_dominant_of(k, *attributes)
    if kind == "top-delta":
        return ps.top_delta_of(k, *attributes)
    if kind == "top-k":
        return ps.top_k_of(k, by=attributes[0])
    raise unknown("query", kind, ("skyline", "k-dominant", "top-delta", "top-k"))


def _disorder(text: str) -> Any:
    named = {"kslack": ps.KSlack, "adaptive": ps.AdaptiveSlack, "in-order": ps.InOrder}
    return named[text]() if text in named else ps.FixedDelay(text)


def _policy(name: str) -> Any:
    if name == "none":
        return None
    from penstock.policies.catalog import policy_named
    from penstock.policies.surroundings import PlantKind, Surroundings

    cores = os.cpu_count() or 1
    return policy_named(
        name, Surroundings(PlantKind.PREFERENCE, (1, max(2, cores)), stages=("panes", "windows"))
    )


def _source(spark: Any, options: Mapping[str, str], seconds: float) -> Any:
    given = dict(pair.split("=", 1) for pair in options["source-options"].split(",") if "=" in pair)
    if options["source"] != "traffic":
        reader = spark.readStream.format(options["source"]).options(**given)
        return (reader.schema(options["source-schema"]) if options["source-schema"] else reader).load()
    live = _generated(options) | {"realtime": "true"} | given
    return spark.readStream.format("penstock-traffic").options(**live).load()


def _generated(options: Mapping[str, str]) -> dict[str, str]:
    names = ("rate", "dispersion", "dims", "distribution", "seed")
    return {"model": "map2", "delayMean": options["delay"], **{name: options[name] for name in names}}


def _whole(options: Mapping[str, str], name: str) -> int:
    try:
        return int(options[name])
    except ValueError:
        raise PenstockError(f"--{name} needs a whole number, not '{options[name]}'.") from None


def _folder(output: str) -> Path:
    return output_folder(Path(output or f"penstock-runs/skyline-{datetime.now():%Y%m%d-%H%M%S}"))


class Board:
    """The live table: one line a micro-batch, the last few kept."""

    LINES = 12
    COLUMNS = (
        "batch",
        "rows/s",
        "late",
        "util. panes",
        "util. windows",
        "splitting",
        "window latency",
        "windows",
        "answer",
    )

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds or float("inf")
        self.end = float("inf")
        self._lines: list[tuple[str, ...]] = []
        self._live: Live | None = None
        self._console = Console()

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Show the table while the block runs; on a terminal in place, elsewhere line by line."""
        if not self._console.is_terminal:
            self._console.print("  ".join(self.COLUMNS), highlight=False, soft_wrap=True)
            yield
            return
        with Live(self._table(), console=self._console, refresh_per_second=4) as self._live:
            yield

    def begin(self) -> None:
        """The query has been started: from here on time counts."""
        self.end = time.monotonic() + self._seconds

    def take(self, p: Mapping[str, Any]) -> None:
        """A micro-batch has been committed."""
        line = (
            f"{p['batch']}",
            f"{p['arrival_rate']:,.0f}",
            f"{p['dropped_share']:.2%}",
            f"{p['utilisation_panes']:.2f}",
            f"{p['utilisation_windows']:.2f}",
            f"{p['splitting']:.1f}",
            f"{p['window_latency']:.2f} s",
            f"{p['windows']}",
            f"{p['answer_rows']:,.0f}",
        )
        self._lines = [*self._lines, line][-self.LINES :]
        if self._live is not None:
            self._live.update(self._table())
        elif not self._console.is_terminal:
            self._console.print(
                "  ".join(v.rjust(len(c)) for v, c in zip(line, self.COLUMNS, strict=True)),
                highlight=False,
                soft_wrap=True,
            )

    def _table(self) -> Table:
        table = Table(title="Penstock: the best tuples of the last second", title_justify="left")
        for column in self.COLUMNS:
            table.add_column(column, justify="right")
        for line in self._lines:
            table.add_row(*line)
        return table


def _summary(folder: Path, journal: Journal, progress: Mapping[str, Any], interrupted: bool) -> Summary:
    if not progress:
        return Summary("skyline", {"rows": 0}, notes=["No micro-batch was finished; let it run longer."])
    totals = progress["totals"]
    tables = journal.tables()
    seen = tables.observations
    plot = plot_run(tables, folder / "run.png")
    figures = {
        "seconds": float(seen["time"][-1]),
        "rows": totals["rows"],
        "late": totals["late"],
        "bad": totals["bad"],
        "windows": totals["windows"],
        "results": totals["results"],
        "mean_answer_rows": totals["results"] / max(totals["windows"], 1),
        "slack_seconds": progress["slack"],
        "folder": str(folder),
    }
    notes = [
        f"results: {folder / 'results'} (Parquet; every window once, with window_start and window_end)",
        f"plot:    {plot}",
        f"journal: {journal}",
    ]
    if interrupted:
        notes.append(
            "Interrupted: what was committed is complete; the same folder as --output goes on from here."
        )
    return Summary("skyline", figures, notes=notes)
