"""The Grafana dashboard and the documentation speak of the metrics that are served."""

import json
import re
from pathlib import Path

from penstock.spark.metrics_endpoint import METRICS

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"


def test_every_panel_asks_for_metrics_that_are_served():
    board = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"penstock_(\w+?)(?=[^\w]|$)", target["expr"])
    }
    assert asked == set(METRICS), "each metric has its place on the board"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_documentation_has_every_metric_in_its_table():
    page = (DASHBOARD.parent / "autoscaling.md").read_text()
    told = set(re.findall(r"^\| `penstock_(\w+)", page, re.MULTILINE))
    assert told == set(METRICS)
