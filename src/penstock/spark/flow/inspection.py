"""Read a flow's checkpoint without touching it."""

import json
import pickle
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.dataflow.keyed_state import ALARM, FREE, HELD, NEVER, TIMER
from penstock.dataflow.layers import DROPPED, FLAGS, TIME, merge
from penstock.dataflow.plan import Plan
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.flow.state_store import LayerFile, counts_by_group, rows_of
from penstock.spark.runtime.arrow_data import read_segment
from penstock.spark.runtime.durable import read_json
from penstock.spark.runtime.locations import location, size_of
from penstock.spark.runtime.manifest import Manifest

_STATE, _KEY = "state_", "key_"


def latest_of(folder: str | Path) -> tuple[dict[str, Any], Manifest, list[int]]:
    """Whose checkpoint it is, its last committed version, and all versions that are kept."""
    base = location(folder) / "penstock"
    try:
        known = (base / "identity.json").exists()
    except OSError as error:
        raise PenstockError(
            f"The checkpoint '{folder}' cannot be read ({error.strerror}); check the path and its permissions."
        ) from None
    if not known:
        raise PenstockError(
            f"'{folder}' is not a checkpoint of Penstock's; name the folder given to start()."
        )
    manifests = {int(found.stem): found for found in (base / "commits").glob("*.json")}
    if not manifests:
        raise PenstockError(
            f"The checkpoint '{folder}' has no committed batch yet; look again after the first one."
        )
    return read_json(base / "identity.json"), Manifest.read(manifests[max(manifests)]), sorted(manifests)


def inspect_flow(folder: str | Path) -> dict[str, Any]:
    """Operators, key groups, sizes and versions of the last committed batch, as plain values."""
    identity, latest, versions = latest_of(folder)
    state = FlowState.from_json(latest.state)
    base = location(folder) / "penstock"
    return {
        "flow": identity["name"],
        "batch": latest.batch,
        "version": latest.version or "0.1",
        "versions": versions,
        "groups": state.plan.groups,
        "totals": vars(state.totals),
        "deferred": len(state.deferred),
        "regions": {
            name: {"replicas": r.replicas, "pipelines": list(r.pipelines), "overlap": r.overlap}
            for name, r in state.plan.regions.items()
        },
        "operators": {
            name: _operator(str(base / "state"), s.layers, state.plan, state.regions.get(name))
            for name, s in state.operators.items()
        },
    }


def values_of(
    folder: str | Path,
    operator: str,
    where: Mapping[str, str] | None = None,
    limit: int = 20,
    unpickle: bool = False,
) -> list[dict[str, Any]]:
    """The keys of an operator with their states, as the last committed batch has them.

    ``where`` picks keys by the text of their columns. A free dictionary is pickled bytes, and unpickling can run code: it
    is done only where ``unpickle`` says so.
    """
    _, latest, _ = latest_of(folder)
    state = FlowState.from_json(latest.state)
    if operator not in state.operators:
        raise unknown("operator with a state", operator, state.operators)
    tables = _tables(
        str(location(folder) / "penstock" / "state"), state.operators[operator].layers, state.plan
    )
    if not tables:
        return []
    # A column may have become wider since some of the layers were written.
    schema = pa.unify_schemas([t.schema for t in tables], promote_options="permissive").empty_table()
    rows = merge([pa.concat_tables([schema, t], promote_options="permissive") for t in tables])
    rows = rows.filter(pa.array((rows.column(FLAGS).to_numpy() & DROPPED) == 0))
    found = []
    for row in rows.to_pylist():
        key = {n.removeprefix(_KEY): v for n, v in row.items() if n.startswith(_KEY)}
        if all(str(key.get(n)) == v for n, v in (where or {}).items()):
            found.append({"key": key, **_state(row, unpickle)})
        if len(found) == limit:
            break
    return found


def _state(row: Mapping[str, Any], unpickle: bool) -> dict[str, Any]:
    values = {n.removeprefix(_STATE): v for n, v in row.items() if n.startswith(_STATE)}
    if FREE in values:
        raw = values[FREE]
        values = pickle.loads(raw) if unpickle and raw is not None else {"pickled bytes": len(raw or b"")}
    shown: dict[str, Any] = {"state": values}
    waiting = {n.removeprefix(HELD): len(v) for n, v in row.items() if n.startswith(HELD) and v}
    if waiting:
        shown["waiting"] = waiting
    for name, word in ((TIMER, "timer"), (ALARM, "alarm"), (TIME, "newest")):
        if row.get(name) is not None and row[name] != NEVER:
            shown[word] = row[name] / 1e6
    return shown


def _tables(folder: str, layers: Sequence[LayerFile], plan: Plan) -> list[pa.Table]:
    """The layers, each cut down to what still counts."""
    tables = []
    for layer in layers:
        table = rows_of(read_segment(folder, layer.file, 0), layer.groups, plan.groups)
        tables.append(table.drop_columns([c for c in layer.ignored if c in table.column_names]))
    return tables


def _operator(folder: str, layers: Sequence[LayerFile], plan: Plan, region: str | None) -> dict[str, Any]:
    tables = [t.select(_inner(t)) for t in _tables(folder, layers, plan)]
    sizes = [size_of(location(folder) / layer.file) for layer in layers]
    keys = counts_by_group(merge(tables), plan.groups) if tables else np.zeros(plan.groups, dtype=np.int64)
    routing = (
        plan.regions[region].routing if region is not None and region in plan.regions else (0,) * plan.groups
    )
    by_group = [
        {
            "group": group,
            "keys": int(keys[group]),
            "kb": round(
                sum(_share(t, plan.groups, group) * s for t, s in zip(tables, sizes, strict=True)) / 1024, 1
            ),
            "layers": sum(group in layer.groups for layer in layers),
            "batch": max((layer.batch for layer in layers if group in layer.groups), default=None),
            "replica": routing[group],
        }
        for group in np.flatnonzero(keys).tolist()
    ]
    return {
        "keys": int(keys.sum()),
        "rows": sum(t.num_rows for t in tables),
        "layers": len(layers),
        "bytes": sum(sizes),
        "largest_group": int(keys.argmax()),
        "largest": int(keys.max()),
        "batches": sorted({layer.batch for layer in layers}),
        "by_group": by_group,
    }


def _inner(table: pa.Table) -> list[str]:
    """The columns that say which keys there are; others may have had other types before."""
    return [n for n in table.column_names if n in ("__hash", FLAGS)]


def _share(table: pa.Table, groups: int, group: int) -> float:
    return float(counts_by_group(table, groups)[group] / table.num_rows) if table.num_rows else 0.0


def as_text(values: Any, indent: int | None = None) -> str:
    """Values as JSON, on one line without an indent."""
    return json.dumps(_plain(values), indent=indent, default=str)


def _plain(value: Any) -> Any:
    """What JSON cannot tell as text: numbers like -inf, and keys of dictionaries that are tuples."""
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {k if isinstance(k, str | int | None) else str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
