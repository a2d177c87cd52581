"""Task reports come out of their JSON as they went in."""

import pytest

from penstock.core.belief import Sighting
from penstock.dataflow.invoke import OperatorFigures
from penstock.disorder.stats import partition_stats
from penstock.spark.flow.task_report import TaskInput, TaskOutputs, TaskReport, WrittenFile, WrittenLayer
from penstock.spark.query.reports import CloseReport, FoldedPart, FoldReport, TallyReport, WindowReport
from penstock.spark.runtime.report import Report

REPORTS = [
    TallyReport(10, 2, 1, partition_stats([5, 3, 9]), 9, (Sighting(5, 9, 3, 4),), None, "dead.parquet", 0.5),
    FoldReport(1, "file", (FoldedPart(7, 0, 3, 9), FoldedPart(8, 1, 1, 1)), 0.1, 0.2, 0.3),
    CloseReport(0, "file", 4, 0.1),
    WindowReport(2, 0.5, sizes={3: 4, 5: 0}, output_file="out", live_file="live", live_rows=9),
    WindowReport(0, 0.5, merged_window=4, merged_file="ids"),
    TaskReport(
        input=TaskInput(1, 12, {"lines": 12}, "count", 1, (3, 4), 5),
        segment=0,
        outputs=TaskOutputs({"out": 4}, (WrittenFile("out", "a", "b"), WrittenFile("", "c", "d")), {"op": 1}),
        operators={"op": OperatorFigures(3, 2, 0.1, clock=17)},
        groups={"count": [0, 3, 1]},
        written=(WrittenLayer("op", "layer", 3, ("old",)),),
        inbox="messages",
        later=(1, 2),
        cpu=0.2,
        seconds=0.3,
    ),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda r: type(r).__name__)
def test_a_report_survives_its_journey(report: Report) -> None:
    assert type(report).from_json(report.to_json()) == report
