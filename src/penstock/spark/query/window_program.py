"""A query of aggregates as a program: the pane stage folds partial results, the window stage combines them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.spark.query.aggregate_stage import AggregateStep, aggregate_schema
from penstock.spark.query.folding import Folding
from penstock.spark.query.grouped_aggregates import GroupedAggregates
from penstock.spark.query.program import QueryProgram
from penstock.spark.query.window_stage import SHARED, WindowStep
from penstock.spark.runtime.program import Batch

if TYPE_CHECKING:
    from penstock.spark.query.window_query import WindowQuery


class WindowProgram(QueryProgram):
    """Rows become partial results where they are read, so what travels are groups and not rows."""

    query: "WindowQuery"  # type: ignore[assignment]  # all that asks for a preference is overridden

    def _grouped(self) -> GroupedAggregates:
        return GroupedAggregates(self.query.aggregates, self.query.groups, self.schema)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The query's meaning and the schema of its input."""
        aggregates = {name: dict(one.parameters) for name, one in self.query.aggregates.items()}
        return {**self.windows_identity, "kind": "window query", "aggregates": aggregates}

    @property
    def _folding(self) -> Folding:
        return self.folding(attributes=(), lift=self.grouped.lifted)

    @property
    def _result_schema(self) -> pa.Schema:
        return aggregate_schema(self.grouped, self.query.time)

    @property
    def _from_rows(self) -> bool:
        return False

    @property
    def _raw(self) -> bool:
        return False

    def _window_step(self, batch: Batch) -> WindowStep:
        return AggregateStep(
            grouped=self.grouped,
            model=self.model,
            schema=self.schema,
            time=self.query.time,
            strategy=SHARED,
            state_folder=batch.state_folder,
            staging=self.outputs.results.staging,
            prefix=batch.prefix,
        )
