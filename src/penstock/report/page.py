"""One self-contained page about one run, from its journal and nothing else."""

import base64
import io
from datetime import UTC, datetime
from html import escape
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.control_quality import ControlQuality, figures, resources, spans
from penstock.core.errors import PenstockError
from penstock.core.journal import Tables, read
from penstock.core.metrics import Metric

Floats = NDArray[np.float64]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1d2733;margin:2rem auto;max-width:62rem;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem} h2{font-size:1.1rem;margin-top:2rem}
.sub{color:#5d6b7a;margin-top:0} img{max-width:100%;height:auto}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;margin:1rem 0}
.tile{border:1px solid #d8dee6;border-radius:6px;padding:.6rem .8rem}
.tile b{display:block;font-size:1.25rem} .tile span{color:#5d6b7a;font-size:.82rem}
table{border-collapse:collapse;width:100%;font-size:.86rem} th{text-align:left;border-bottom:2px solid #c4ccd6}
td,th{padding:.25rem .6rem .25rem 0;vertical-align:top} tr+tr td{border-top:1px solid #eceff3}
td.n{white-space:nowrap;font-variant-numeric:tabular-nums} .change td{background:#f2f7ff} .warn td{background:#fff6ea}
"""


def write_page(journal: Path, page: Path, target: float | None = None) -> ControlQuality:
    """Read a journal, write the page, return its SASO figures."""
    tables = read(journal)
    metric, aim = _target(tables, target)
    quality = figures(tables, metric, aim)
    if not quality.observations:
        raise PenstockError(f"The journal {journal} has no observations yet, so there is nothing to report.")
    html = _page(_title(journal, tables), tables, metric, aim, quality)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise PenstockError(f"Cannot write {page} ({error.strerror}); choose another place.") from None
    return quality


def _title(journal: Path, tables: Tables) -> str:
    """What ran, by the names in its journal, and when it began."""
    run: dict[str, Any] = {}
    for record in tables.records:
        run |= record if record["kind"] == "run" else {}
    stages = list(dict.fromkeys(map(str, tables.stages.get("stage", ()))))
    if "flow" in run:
        what = f"Flow {run['flow']}"
    elif run.get("query"):
        what = f"Query {run['query']}"
    elif run.get("plant") == "spark" and stages:
        what = f"{'Query' if len(stages) == 1 else 'Queries'} {', '.join(stages)}"
    else:
        what = f"Run {journal.absolute().parent.name}/{journal.name}"
    try:
        began = datetime.fromtimestamp(float(run["started"]), UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return what
    return f"{what}, {began:%Y-%m-%d %H:%M:%S} UTC"


def _target(tables: Tables, given: float | None) -> tuple[Metric, float]:
    """The target of the run, as given or as its header tells."""
    run: dict[str, Any] = next(
        (r for r in reversed(tables.records) if r["kind"] == "run" and "target" in r), {}
    )
    name = run.get("metric", Metric.LATENCY_P95.value)
    metric = next((m for m in Metric if m.value == name), Metric.LATENCY_P95)
    return metric, float(given if given is not None else run.get("target", nan))


def static_peak(tables: Tables) -> tuple[float, float]:
    """Core-seconds used, and what holding the largest capacity of the run all the time would have used."""
    seen = list(tables.replay())
    used = np.array([resources(o) for o in seen])
    covered = spans(seen)
    return float((used * covered).sum()), float(used.max(initial=0.0) * covered.sum())


def _page(name: str, tables: Tables, metric: Metric, target: float, quality: ControlQuality) -> str:
    used, peak = static_peak(tables)
    policies = sorted({str(p) for p in tables.decisions.get("policy", ())})
    tiles = [
        ("duration", f"{quality.duration:.0f} s"),
        ("core-seconds", f"{used:.0f}"),
        ("saved against static peak", f"{1 - used / peak:.0%}" if peak else "unknown"),
        ("reconfigurations", f"{quality.reconfigurations}"),
        ("a minute", f"{quality.reconfigurations_per_minute:.2g}"),
        ("violations", _violations(quality.violation_share, target)),
        ("settling time", f"{quality.settling_time:.1f} s"),
        ("amplitude", f"{quality.amplitude:.2g}"),
        ("overshoot", f"{quality.overshoot:.0%}" if isfinite(quality.overshoot) else "unknown"),
        ("mean response", _seconds(quality.latency_mean)),
        ("P95 response", _seconds(quality.latency_p95)),
    ]
    shown = "".join(f'<div class="tile"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for k, v in tiles)
    aim = f"target: {metric.value} at most {target:g} s" if isfinite(target) else "no target was set"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(name)} - Penstock</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(name)}</h1><p class='sub'>policy {escape(', '.join(policies) or 'none')}; {aim}; "
        f"{quality.observations} observations; {tables.torn} unreadable {'line' if tables.torn == 1 else 'lines'}</p>"
        f"<div class='tiles'>{shown}</div>"
        f"<h2>Load, capacity and response</h2><img alt='load, capacity and response over time' "
        f"src='data:image/png;base64,{_plot(tables, metric, target)}'>"
        f"<h2>Decisions</h2>{_decisions(tables)}{_warnings(tables)}</body></html>"
    )


def _violations(share: float, target: float) -> str:
    if not isfinite(target):
        return "no target"
    return f"{share:.1%}" if isfinite(share) else "nothing measured"


def _decisions(tables: Tables) -> str:
    """Every decision with its reason; neighbours that say the same become one row."""
    rows: list[list[Any]] = []
    columns = tables.decisions
    count = len(columns.get("time", ()))
    for i in range(count):
        at = {k: v[i] for k, v in columns.items()}
        changes, mode = str(at.get("changes") or ""), str(at.get("mode") or "")
        key = (changes, mode, _stem(str(at.get("reason") or "")), _stem(str(at.get("notes") or "")))
        if rows and not changes and rows[-1][0] == key:
            rows[-1][2], rows[-1][3] = at["time"], rows[-1][3] + 1
        else:
            rows.append([key, at["time"], at["time"], 1, changes, mode, at.get("reason"), at.get("notes")])
    body = "".join(_decision_row(row) for row in rows)
    head = "<tr><th>time</th><th>change</th><th>reason</th><th>guards</th></tr>"
    return f"<table>{head}{body}</table>" if rows else "<p>No decisions were recorded.</p>"


def _decision_row(row: list[Any]) -> str:
    _, first, last, count, changes, mode, reason, notes = row
    when = f"{first:.0f} s" if count == 1 else f"{first:.0f} to {last:.0f} s"
    what = " ".join(filter(None, [changes, f"({mode})" if mode else ""]))
    kind = ' class="change"' if changes and mode not in ("dry-run", "paused") else ""
    cells = [
        f'<td class="n">{when}</td>',
        *(f"<td>{escape(str(t or ''))}</td>" for t in (what, reason, notes)),
    ]
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _stem(text: str) -> str:
    """A sentence without its figures, to see which ones say the same."""
    return "".join(c for c in text if not c.isdigit() and c not in ".-+e")


def _warnings(tables: Tables) -> str:
    texts, times = tables.warnings.get("text", ()), tables.warnings.get("time", ())
    if not len(texts):
        return ""
    rows = "".join(
        f'<tr class="warn"><td class="n">{t:.0f} s</td><td>{escape(str(w))}</td></tr>'
        for t, w in zip(times, texts, strict=True)
    )
    return f"<h2>Warnings</h2><table>{rows}</table>"


def _plot(tables: Tables, metric: Metric, target: float) -> str:
    from matplotlib.figure import Figure

    seen = list(tables.replay())
    times = np.array([o.time for o in seen])
    figure = Figure(figsize=(10, 8.2), layout="constrained")
    load, capacity, response = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.1, 1.2])
    rate = np.array([o.measure(Metric.ARRIVAL_RATE) for o in seen])
    load.fill_between(times, np.nan_to_num(rate), color="#c9dcf2", step="post")
    load.plot(times, rate, color="#2b6cb0", lw=1.2, drawstyle="steps-post")
    load.set_ylabel("arrivals (rows/s)")
    backlog = np.array([o.measure(Metric.BACKLOG) for o in seen])
    if np.nanmax(np.append(backlog, 0.0)) > 0:
        other = load.twinx()
        other.plot(times, backlog, color="#b0783a", lw=0.9, alpha=0.8)
        other.set_ylabel("backlog (rows)", color="#b0783a")
    _plot_capacity(capacity, seen, times)
    _plot_response(response, seen, times, metric, target)
    for axis in (load, capacity, response):
        axis.grid(alpha=0.25)
        axis.spines["top"].set_visible(False)
        for at in sorted({float(t) for t in tables.changes.get("time", ())}):
            axis.axvline(at, color="#888", lw=0.6, ls=":")
    response.set_xlabel("seconds; dotted lines are reconfigurations")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return base64.b64encode(buffer.getvalue()).decode()


def _plot_capacity(axis: Any, seen: list[Any], times: Floats) -> None:
    planned, observed = [], []
    for o in seen:
        parts = [o.executors] if o.executors is not None else [s.workers for s in o.stages]
        planned.append(sum(c.planned for c in parts))
        observed.append(sum(c.observed for c in parts))
    axis.plot(times, planned, color="#888", lw=1.1, ls="--", drawstyle="steps-post", label="planned")
    axis.plot(times, observed, color="#22543d", lw=1.6, drawstyle="steps-post", label="working")
    cores = np.array([resources(o) for o in seen])
    if not np.allclose(cores, observed):
        axis.fill_between(times, cores, color="#cfe8d8", step="post", label="cores held")
    axis.set_ylim(0, 1.25 * max(1.0, *planned, *observed))
    axis.set_ylabel("executors" if seen[0].executors is not None else "workers")
    axis.legend(loc="upper left", frameon=False, fontsize=8, ncols=3)


def _plot_response(axis: Any, seen: list[Any], times: Floats, metric: Metric, target: float) -> None:
    for kind, colour, width in (
        (Metric.LATENCY_MEAN, "#9f7aea", 1.0),
        (Metric.LATENCY_P95, "#553c9a", 1.5),
    ):
        values = np.array([o.measure(kind) for o in seen])
        known = np.isfinite(values)
        if known.any():
            axis.plot(times[known], values[known], color=colour, lw=width, label=kind.value)
    if isfinite(target):
        axis.axhline(target, color="#c53030", lw=1.1, ls="--", label=f"target {target:g} s")
        values = np.array([o.measure(metric) for o in seen])
        late = np.isfinite(values) & (values > target)
        axis.plot(times[late], values[late], "o", color="#c53030", ms=3.5)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("response (s)")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="upper left", frameon=False, fontsize=8, ncols=3)


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if isfinite(value) else "unknown"
