"""The Grafana dashboard asks only for metrics that exist."""

import json
import re
from pathlib import Path

from penstock.spark.metrics_endpoint import _HELP

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"


def test_every_panel_asks_for_metrics_that_are_served():
    board = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"penstock_(\w+?)(?=[^\w]|$)", target["expr"])
    }
    assert asked
    assert asked <= set(_HELP)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
