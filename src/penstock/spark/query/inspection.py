"""Read the checkpoint of a preference or window query without touching it."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.preference.panes import PaneModel
from penstock.spark.flow.inspection import latest_of
from penstock.spark.query.query_state import QueryState
from penstock.spark.runtime.arrow_data import read_rows
from penstock.spark.runtime.locations import location, size_of


def inspect_query(folder: str | Path) -> dict[str, Any]:
    """Panes, workers, disorder and sizes of the last committed batch, as plain values."""
    identity, latest, versions = latest_of(folder)
    state, base = QueryState.from_json(latest.state), location(folder) / "penstock" / "state"
    model = PaneModel(identity["window in microseconds"], identity["slide in microseconds"])
    rows = Counter[int]()
    for part in state.parts:
        rows[part.pane] += part.rows
    return {
        "query": identity["kind"],
        "asks": identity.get("preference", identity.get("aggregates")),
        "batch": latest.batch,
        "version": latest.version or "0.1",
        "versions": versions,
        "workers": {"panes": state.pane_workers, "windows": state.window_workers},
        "totals": vars(state.totals),
        "newest": _seconds(state.disorder.t_max),
        "punctuation": _seconds(state.disorder.punctuation),
        "window_files": {name: size_of(base / name) for name in state.window_files},
        "panes": [
            {
                "pane": pane,
                "start": model.pane_bounds(pane)[0] / 1e6,
                "end": model.pane_bounds(pane)[1] / 1e6,
                "open": state.closed_before is None or pane >= state.closed_before,
                "parts": sum(part.pane == pane for part in state.parts),
                "rows": rows[pane],
            }
            for pane in sorted(rows)
        ],
    }


def values_of_pane(
    folder: str | Path, pane: int, where: Mapping[str, str] | None = None, limit: int = 20
) -> list[dict[str, Any]]:
    """What is kept of a pane: rows of a preference query, partial results of a window query."""
    _, latest, _ = latest_of(folder)
    state, base = QueryState.from_json(latest.state), location(folder) / "penstock" / "state"
    tables = [read_rows(base, p.file, p.segment) for p in state.parts if p.pane == pane]
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist() if tables else []
    chosen = [r for r in rows if all(str(r.get(n)) == v for n, v in (where or {}).items())]
    return [{n: v for n, v in r.items() if not n.startswith("__")} for r in chosen[:limit]]


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6
