"""Read a flow's checkpoint without touching it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.dataflow.layers import merge
from penstock.dataflow.plan import Plan
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.flow.state_store import LayerFile, counts_by_group, rows_of
from penstock.spark.runtime.durable import read_json
from penstock.spark.runtime.manifest import Manifest
from penstock.spark.runtime.segments import read_segment


def inspect_checkpoint(folder: str | Path) -> dict[str, Any]:
    """Operators, key groups, sizes and versions of the last committed batch, as plain values."""
    base = Path(folder) / "penstock"
    if not (base / "identity.json").exists():
        raise PenstockError(
            f"'{folder}' is not a checkpoint of Penstock's; name the folder given to start()."
        )
    identity = read_json(base / "identity.json")
    if identity.get("kind") != "flow":
        raise PenstockError(f"The checkpoint '{folder}' belongs to a preference query, not to a flow.")
    manifests = sorted((base / "commits").glob("*.json"))
    if not manifests:
        raise PenstockError(
            f"The checkpoint '{folder}' has no committed batch yet; look again after the first one."
        )
    latest = Manifest.read(manifests[-1])
    state = FlowState.from_json(latest.state)
    return {
        "flow": identity["name"],
        "batch": latest.batch,
        "versions": [int(m.stem) for m in manifests],
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


def _operator(folder: str, layers: Sequence[LayerFile], plan: Plan, region: str | None) -> dict[str, Any]:
    tables = [rows_of(read_segment(folder, layer.file, 0), layer.groups, plan.groups) for layer in layers]
    sizes = [(Path(folder) / layer.file).stat().st_size for layer in layers]
    keys = counts_by_group(merge(tables), plan.groups) if tables else np.zeros(plan.groups, dtype=np.int64)
    routing = plan.regions[region].routing if region else (0,) * plan.groups
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


def _share(table: pa.Table, groups: int, group: int) -> float:
    return float(counts_by_group(table, groups)[group] / table.num_rows) if table.num_rows else 0.0
