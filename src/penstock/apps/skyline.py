"""The demo: the best tuples of the last second, five times a second, over a bursty stream that is out of order."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

import penstock as ps
from penstock.apps.flow_app import tell_page, whole
from penstock.apps.run_picture import draw_run, headline
from penstock.apps.summary import Option, Summary
from penstock.core.errors import unknown
from penstock.core.journal import Journal
from penstock.core.output_folder import output_folder
from penstock.core.tables import Tables
from penstock.preference.preference import Preference
from penstock.traffic.spec import StreamSpec

HELP = "windows of a preference query over a bursty, out-of-order stream, with a live table and a picture"

OPTIONS: Mapping[str, Option] = {
    "query": Option("skyline", "skyline, k-dominant, top-delta or top-k"),
    "k": Option("6", "k of k-dominant, delta of top-delta or k of top-k"),
    "window": Option("1 second", "length of the windows"),
    "slide": Option("200 milliseconds", "distance of their starts"),
    "rate": Option("10000", "tuples a second"),
    "dispersion": Option(
        "2000", "index of dispersion of the arrivals: 1 is Poisson, thousands are severe bursts"
    ),
    "shape": Option(
        "", "how the rate changes with time: flash:at=20,peak=5,rise=1,decay=4; several with semicolons"
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
    "period": Option("2.5", "seconds between two decisions of the policy"),
    "workers": Option("1", "workers of each stage at the start"),
    "trigger": Option("100 milliseconds", "how often a micro-batch starts"),
    "engine": Option("resident", "resident (workers that live as long as the run) or jobs"),
    "master": Option("", "Spark master; local with a slot for each core, and at least four, by default"),
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
    from penstock.spark import running

    shown = Board(seconds)
    master = options["master"] or f"local[{slots()}]"
    with ThreadPoolExecutor(1) as pool, running(_session(pool, query, master)) as spark:
        frame = _source(spark, options, seconds)
        run = query.start(
            frame,
            output=folder / "results",
            checkpoint=folder / "checkpoint",
            trigger=options["trigger"],
            engine=options["engine"],
            policy=policy,
            period=float(options["period"]),
            page=options["page"] or None,
        )
        tell_page(run)
        run.listen(shown.take)
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


def _session(pool: ThreadPoolExecutor, query: ps.PreferenceQuery, master: str) -> Any:
    """A session; what the query needs is compiled while the JVM starts."""
    from penstock.spark import session
    from penstock.spark.query.pane_stage import GroupedPreference

    compiling = pool.submit(GroupedPreference(query.preference).warm)
    started = session(master, app="penstock skyline")
    compiling.result()
    return started


def _query(options: Mapping[str, str]) -> ps.PreferenceQuery:
    return ps.PreferenceQuery(
        _preference(options),
        time=options["time"],
        window=options["window"],
        slide=options["slide"],
        disorder=_disorder(options["disorder"]),
        splitting=options["splitting"],
        window_strategy=options["windows"],
        pane_workers=whole(options, "workers"),
        window_workers=whole(options, "workers"),
    )


def _preference(options: Mapping[str, str]) -> Preference:
    smaller = [c.strip() for c in options["minimize"].split(",") if c.strip()]
    larger = [c.strip() for c in options["maximize"].split(",") if c.strip()]
    if not smaller and not larger:
        smaller = [f"a{i}" for i in range(whole(options, "dims"))]
    attributes = [*map(ps.minimize, smaller), *map(ps.maximize, larger)]
    kind, k = options["query"], whole(options, "k")
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

    return policy_named(
        name, Surroundings(PlantKind.PREFERENCE, (1, slots()), stages=("panes", "windows"), cores=slots())
    )


def slots() -> int:
    """Tasks that the demo's own master runs at the same time: workers take turns on few cores, so that even two of them show it."""
    return max(4, os.cpu_count() or 1)


def _source(spark: Any, options: Mapping[str, str], seconds: float) -> Any:
    given = dict(pair.split("=", 1) for pair in options["source-options"].split(",") if "=" in pair)
    if options["source"] != "traffic":
        reader = spark.readStream.format(options["source"]).options(**given)
        return (reader.schema(options["source-schema"]) if options["source-schema"] else reader).load()
    live = _generated(options) | {"realtime": "true"} | given
    return spark.readStream.format("penstock-traffic").options(**live).load()


def _generated(options: Mapping[str, str]) -> dict[str, str]:
    names = ("rate", "dispersion", "shape", "dims", "distribution", "seed")
    return {"model": "map2", "delayMean": options["delay"], **{name: options[name] for name in names}}


def run_folder(name: str) -> str:
    """Where a run goes that is not told where."""
    return f"penstock-runs/{name}-{datetime.now():%Y%m%d-%H%M%S}"


def _folder(output: str) -> Path:
    return output_folder(Path(output or run_folder("skyline")))


class Board:
    """The live table: one line a second, the last few kept. Time counts from the first answer."""

    LINES = 12
    COLUMNS = (
        "second",
        "rows/s",
        "workers",
        "busy",
        "split",
        "answer lag",
        "late",
        "windows",
        "rows of an answer",
    )

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds or float("inf")
        self.end = float("inf")
        self._began = self._next = float("nan")
        self._lines: list[tuple[str, ...]] = []
        self._since: list[Mapping[str, Any]] = []
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

    def take(self, p: Mapping[str, Any]) -> None:
        """A micro-batch has been committed."""
        now = time.monotonic()
        if isnan(self._began):
            if not p["windows"]:
                return
            self._began, self._next, self.end = now, now, now + self._seconds
        self._since.append(p)
        if now < self._next:
            return
        self._next = now + 1.0
        line, self._since = self._line(now - self._began, self._since), []
        self._lines = [*self._lines, line][-self.LINES :]
        if self._live is not None:
            self._live.update(self._table())
        elif not self._console.is_terminal:
            self._console.print(
                "  ".join(v.rjust(len(c)) for v, c in zip(line, self.COLUMNS, strict=True)),
                highlight=False,
                soft_wrap=True,
            )

    def _line(self, second: float, batches: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        last = batches[-1]
        busy = max(
            (u for b in batches for u in (b["utilisation_panes"], b["utilisation_windows"])), default=0.0
        )
        known = {
            name: [b[name] for b in batches if not isnan(b[name])]
            for name in ("answer_lag", "answer_rows", "splitting")
        }
        return (
            f"{second:.0f}",
            f"{sum(b['rows'] for b in batches) / max(sum(b['interval'] for b in batches), 1e-3):,.0f}",
            f"{last['pane_workers']} + {last['window_workers']}",
            f"{busy:.0%}",
            f"{max(known['splitting']):.1f}" if known["splitting"] else "",
            f"{max(known['answer_lag']):.2f} s" if known["answer_lag"] else "",
            f"{last['dropped_share']:.2%}",
            f"{sum(b['windows'] for b in batches)}",
            f"{known['answer_rows'][-1]:,.0f}" if known["answer_rows"] else "",
        )

    def _table(self) -> Table:
        table = Table(title="Penstock: the best tuples of the last second", title_justify="left")
        for column in self.COLUMNS:
            table.add_column(column, justify="right")
        for line in self._lines:
            table.add_row(*line)
        return table


def _begun(tables: Tables) -> float:
    """When the first windows were answered; what comes before is the start of the engine and what waited for it."""
    windows = tables.observations.get("windows", np.zeros(0))
    answered = tables.observations["time"][windows > 0]
    return float(answered[min(3, len(answered) - 1)]) if len(answered) else 0.0


def _summary(folder: Path, journal: Journal, progress: Mapping[str, Any], interrupted: bool) -> Summary:
    if not progress:
        return Summary("skyline", {"rows": 0}, notes=["No micro-batch was finished; let it run longer."])
    totals = progress["totals"]
    tables = journal.tables()
    seen = tables.observations
    begin = _begun(tables)
    picture = draw_run(tables, folder / "run.png", begin)
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
        f"picture: {picture}",
        f"journal: {journal} (penstock report draws it, penstock watch shows it)",
        headline(tables, begin),
    ]
    if interrupted:
        notes.append(
            "Interrupted: what was committed is complete; the same folder as --output goes on from here."
        )
    return Summary("skyline", figures, notes=notes)
