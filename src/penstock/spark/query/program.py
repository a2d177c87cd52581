"""A preference query as a program of the micro-batch runtime: one batch in, new state and windows out.

Per batch: route rows to pane workers and fold them into the parts of open panes (one Spark job); advance slack and
punctuation from what the rows said; close panes and give out windows (a second job, where there are any).
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.belief import learned
from penstock.core.listeners import Listeners
from penstock.disorder import InOrder
from penstock.disorder.stats import BatchStats
from penstock.preference.splitting import SplitState
from penstock.spark.query.figures import Measurements, QueryFigures, figures_of, stage_utilisation
from penstock.spark.query.folding import Folded, Folding
from penstock.spark.query.judging import JudgingStep, slack_by_recall
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.pane_stage import CloseStage, GroupedPreference, Part
from penstock.spark.query.query_state import QueryState, QueryTotals
from penstock.spark.query.reports import CloseReport, run_stage
from penstock.spark.query.routing import Lift
from penstock.spark.query.window_rows import result_schema
from penstock.spark.query.window_stage import PLAIN, Windowed, WindowStep, closing_parts
from penstock.spark.runtime.arrow_data import utc_schema
from penstock.spark.runtime.engine import Effort, Engine, InLane, Lane
from penstock.spark.runtime.manifest import Publication
from penstock.spark.runtime.milestones import reached
from penstock.spark.runtime.program import Batch, BatchResult, backlog

if TYPE_CHECKING:
    from penstock.spark.query.preference_query import PreferenceQuery


@dataclass(frozen=True)
class _Turn:
    """What a batch came to: the rows folded, the state whose panes closed, the windows, the state after it all."""

    folded: Folded
    closing: QueryState
    done: Windowed
    after: QueryState
    close_busy: float
    pane_seconds: float
    window_seconds: float


class QueryProgram:
    """See the module's text; ``target`` may be changed at any time and holds from the next batch on.

    ``trigger`` is the trigger interval in seconds, None where batches follow each other at once; ``listeners`` are told
    the figures of each batch once it is committed.
    """

    def __init__(
        self,
        query: "PreferenceQuery",
        schema: pa.Schema,
        outputs: QueryOutputs,
        trigger: float | None = None,
        listeners: Listeners[QueryFigures] | None = None,
    ) -> None:
        self.query = query
        self._input = schema
        self.schema = utc_schema(schema)
        self.outputs = outputs
        self.trigger = trigger
        self.listeners = Listeners[QueryFigures]() if listeners is None else listeners
        self.model = query.panes
        self.grouped = self._grouped()
        self.target: tuple[int, int] | None = None
        #: The share of the rows to drop from the next batch on.
        self.shedding = 0.0
        self._worked = (query.pane_workers, query.window_workers)
        self._previous: float | None = None
        self._left = nan  # rows that the last batch left at the source
        self._committed = nan  # when that was
        #: Utilisation of the pane workers in the batch before, where they are resident.
        self._rho: float | None = None

    def _grouped(self) -> Any:
        """What the pane stage does with rows."""
        return GroupedPreference(self.query.preference, self.query.groups)

    @property
    def _folding(self) -> Folding:
        """The first job."""
        return self.folding(
            tuple(a.column for a in self.query.preference.attributes if a.direction != "diff")
        )

    def folding(self, attributes: tuple[str, ...], lift: Lift | None = None) -> Folding:
        """The first job: which columns must hold numbers, and what is made of rows where they are read."""
        return Folding(
            grouped=self.grouped,
            time=self.query.time,
            attributes=attributes,
            pane_us=self.model.pane_us,
            strategy=self.query.strategy.name,
            limits=self.query.limits,
            raw=self._raw,
            late_folder=self._late_folder,
            dead_folder=self.outputs.dead.staging,
            lift=lift,
            shed=self.shedding,
            unit=self.query.unit,
        )

    @property
    def _late_folder(self) -> str | None:
        """Where late rows wait: for the commit, or only to be compared with answers."""
        if self.outputs.late is not None:
            return self.outputs.late.staging
        return None if slack_by_recall(self.query.disorder) is None else self.outputs.results.staging

    @property
    def identity(self) -> Mapping[str, Any]:
        """The query's meaning and the schema of its input; strategies may change between runs."""
        return {
            "kind": "preference query",
            "preference": repr(self.query.preference),
            "preference parameters": self.query.preference.parameters,
            **self.windows_identity,
        }

    @property
    def windows_identity(self) -> dict[str, Any]:
        """Windows, groups, disorder and input."""
        counted = {} if self.query.unit == "seconds" else {"unit of time": self.query.unit}
        return {
            "time column": self.query.time,
            **counted,
            "window in microseconds": self.model.window_us,
            "slide in microseconds": self.model.slide_us,
            "group columns": list(self.query.groups),
            "disorder handling": repr(self.query.disorder),
            "input schema": [[f.name, str(f.type)] for f in self._input],
        }

    @property
    def workers_wanted(self) -> int:
        """How many workers the next batch can use."""
        return self.workers_for(self.workers)

    def workers_for(self, stages: tuple[int, int]) -> int:
        """Both stages run on all workers in turn, so the larger number counts; those that overlap have their own."""
        return sum(stages) if self.query.overlap else max(stages)

    @property
    def _result_schema(self) -> pa.Schema:
        return result_schema(self.schema, self.query.time, self.query.preference)

    @property
    def _from_rows(self) -> bool:
        """Whether windows are made from rows, without panes in between."""
        return self.query.window_strategy == PLAIN

    @property
    def _raw(self) -> bool:
        """Whether the pane stage only keeps rows."""
        return self._from_rows or isinstance(self.query.disorder, InOrder)

    def first_state(self) -> Mapping[str, Any]:
        """Nothing seen yet."""
        state = QueryState(
            disorder=self.query.disorder.start(),
            pane_workers=self.query.pane_workers,
            window_workers=self.query.window_workers,
            splitting=self.query.strategy.start().to_json(),
        )
        return state.to_json()

    def run_batch(self, batch: Batch) -> BatchResult:
        """Process one micro-batch."""
        committed = QueryState.from_json(batch.state)
        start = self._rescaled(committed)
        turn = self._beside(batch, start) if self.query.overlap else self._in_turn(batch, start)
        folded, done = turn.folded, turn.done
        closed = _closed_between(turn.closing, committed.closed_before, done.state.closed_before)
        rho = self._utilisation(start.pane_workers, turn) if self._rho is None else self._rho
        splitting = self.query.strategy.step(
            SplitState.from_json(start.splitting), [p.received for p in closed], rho
        )
        after = self._judged(batch, turn.after, done, folded)
        state = replace(_counted(after, done, folded), splitting=splitting.to_json())
        measured = Measurements(
            rows=folded.rows,
            late=folded.late,
            bad=folded.bad,
            shed=folded.shed,
            pane_busy=turn.after.loads,
            pane_rows=tuple(folded.by_worker(start.pane_workers, "received")),
            pane_utilisation=rho,
            pane_write=max((w.write for w in folded.workers), default=0.0),
            pane_seconds=turn.pane_seconds,
            close_busy=turn.close_busy,
            window_seconds=turn.window_seconds,
            closed=tuple(closed),
            done=done,
            first_arrivals=self._first_arrivals(turn.closing, done),
            window_ends=[end / 1e6 for end in self.model.window_bounds(sorted(done.sizes))[1].tolist()],
            rescaled=(start.pane_workers, start.window_workers)
            != (committed.pane_workers, committed.window_workers),
        )
        figures = figures_of(batch, turn.closing, state, measured, self.trigger, self._previous)
        self._worked, self._previous = (start.pane_workers, start.window_workers), batch.started
        outputs = self._give_out(batch, done) + self.outputs.set_aside(folded.tallies)
        return BatchResult(state.to_json(), state.files, outputs, figures.progress(), figures)

    def _in_turn(self, batch: Batch, start: QueryState) -> "_Turn":
        """Fold the rows, then give out the windows that are complete by them."""
        clock = time.perf_counter()
        folded = self._folding.run(batch, start)
        reached("panes-folded", batch.id)
        pane_seconds = time.perf_counter() - clock
        closing, busy = self._close_raw(batch, self._observed(batch, start, folded))
        done = self._window_step(batch).run(batch.engine, closing)
        reached("windows-written", batch.id)
        window_seconds = time.perf_counter() - clock - pane_seconds
        return _Turn(folded, closing, done, done.state, busy, pane_seconds, window_seconds)

    def _beside(self, batch: Batch, start: QueryState) -> "_Turn":
        """Fold the rows on the pane workers while the window workers give out what the batches before completed.

        The two touch different panes: what is closed takes no rows any more.
        """
        sizes = (start.pane_workers, start.window_workers)
        clock = time.perf_counter()
        with ThreadPoolExecutor(1, "penstock-windows") as pool:
            windows = pool.submit(self._completed, batch, start, InLane(batch.engine, Lane(1, sizes)))
            folded = self._folding.run(replace(batch, engine=InLane(batch.engine, Lane(0, sizes))), start)
            reached("panes-folded", batch.id)
            pane_seconds = time.perf_counter() - clock
            closing, busy, done, window_seconds = windows.result()
        reached("windows-written", batch.id)
        after = self._observed(batch, done.state, folded)
        return _Turn(folded, closing, done, after, busy, pane_seconds, window_seconds)

    def _completed(
        self, batch: Batch, state: QueryState, engine: Engine
    ) -> tuple[QueryState, float, Windowed, float]:
        clock = time.perf_counter()
        batch = replace(batch, engine=engine)
        closing, busy = self._close_raw(batch, state)
        done = self._window_step(batch).run(engine, closing)
        return closing, busy, done, time.perf_counter() - clock

    def settled(self, batch: Batch) -> BatchResult | None:
        """Give out what the last batch completed, where that waits for the next one."""
        state = QueryState.from_json(batch.state)
        if not self.query.overlap or not self._window_step(batch).is_due(state):
            return None
        _, _, done, _ = self._completed(batch, state, batch.engine)
        nothing = Folded(BatchStats(), [], [])
        after = _counted(self._judged(batch, done.state, done, nothing), done, nothing)
        return BatchResult(after.to_json(), after.files, self._give_out(batch, done, "settled-"))

    def committed(
        self, batch: Batch, outcome: BatchResult, seconds: float, effort: Effort | None
    ) -> Mapping[str, Any]:
        """Tell those who listen; the figures that are known only now."""
        assert isinstance(outcome.figures, QueryFigures)
        left, now = batch.left, time.time()
        more = left - self._left
        figures = replace(outcome.figures, seconds=seconds, committed=now)
        if not isnan(more):  # rows that a limit for batches holds back have arrived, too
            figures = replace(
                figures, arrival_rate=max(0.0, figures.rows + more) / max(now - self._committed, 1e-3)
            )
        figures = replace(figures, backlog=backlog(left, figures.arrival_rate, seconds, self.trigger))
        if effort is not None and effort.lanes:
            figures = figures.on_workers(effort, more, self.query.overlap)
            self._rho = figures.utilisation_panes
        self._left, self._committed = left, now
        self.listeners.tell(figures)
        return figures.progress()

    def close(self) -> None:
        """The run has ended."""

    @property
    def workers(self) -> tuple[int, int]:
        """Pane and window workers of the next batch."""
        return self.target or self._worked

    def _observed(self, batch: Batch, state: QueryState, folded: Folded) -> QueryState:
        """The state with the batch's parts in it and slack and punctuation advanced."""
        state = state.with_parts(folded.workers, self._raw, batch.started)
        disorder = self.query.disorder.step(state.disorder, folded.stats)
        return replace(
            state,
            inputs=len(folded.tallies) or state.inputs,
            disorder=disorder,
            belief=learned(
                state.belief,
                folded.judged,
                state.disorder.t_max,
                disorder.t_max,
                int(batch.started * 1e6),
                self.query.limits.ahead,
            ),
        )

    def _close_raw(self, batch: Batch, state: QueryState) -> tuple[QueryState, float]:
        """In-order processing: what was held back is computed now, in order of time."""
        raw = [] if self._from_rows else closing_parts(state, self.model)
        if not raw:
            return state, 0.0
        stage = CloseStage(self.grouped, self.query.time, batch.state_folder, batch.prefix, tuple(raw))
        reports = run_stage(batch.engine, stage, CloseReport, len(raw), state.pane_workers)
        parts = {p.id: p for p in state.parts}
        times = dict(state.pane_times)
        for report in reports:
            old = raw[report.index]
            parts[old.id] = replace(old, file=report.file, segment=0, rows=report.rows, raw=False)
            times[old.pane] = replace(times[old.pane], last=time.time())
        state = replace(state, parts=tuple(parts.values()), pane_times=times)
        return state, sum(r.busy for r in reports)

    def _judged(self, batch: Batch, state: QueryState, done: Windowed, folded: Folded) -> QueryState:
        """The state with what late rows have cost the answers, for a slack that goes by it."""
        slack = slack_by_recall(self.query.disorder)
        if slack is None:
            return state
        step = JudgingStep(
            slack=slack,
            grouped=self.grouped,
            model=self.model,
            time=self.query.time,
            state_folder=batch.state_folder,
            prefix=batch.prefix,
            keeps_late=self.outputs.late is not None,
            unit=self.query.unit,
        )
        late = [t.late_file for t in folded.tallies if t.late_file]
        return step.run(batch.engine, state, sorted(done.sizes), done.output_files, late)

    def _window_step(self, batch: Batch) -> WindowStep:
        return WindowStep(
            grouped=self.grouped,
            model=self.model,
            schema=self.schema,
            time=self.query.time,
            strategy=self.query.window_strategy,
            state_folder=batch.state_folder,
            staging=self.outputs.results.staging,
            prefix=batch.prefix,
        )

    def _give_out(self, batch: Batch, done: Windowed, word: str = "") -> list[Publication]:
        return self.outputs.give_out(batch, sorted(done.output_files), self._result_schema, word)

    def _utilisation(self, workers: int, turn: _Turn) -> float:
        """The pane stage's utilisation over one trigger interval, or over the batch where these follow each other at once."""
        period = self.trigger or max(turn.pane_seconds + turn.window_seconds, 1e-3)
        folded = turn.folded
        return stage_utilisation(
            folded.by_worker(workers, "received"), folded.by_worker(workers, "busy"), period
        )

    def _first_arrivals(self, state: QueryState, done: Windowed) -> list[float]:
        """When the first row of each window of this batch came in, on the driver's clock."""
        firsts = []
        for number in done.sizes:
            first, last = self.model.panes_of_window(number)
            firsts.append(min(t.first for pane, t in state.pane_times.items() if first <= pane <= last))
        return firsts

    def _rescaled(self, state: QueryState) -> QueryState:
        before = (state.pane_workers, state.window_workers)
        panes, windows = self.query.given_workers
        target = self.target or (panes or before[0], windows or before[1])
        return state if target == before else state.rescaled(*target)


def _counted(state: QueryState, done: Windowed, folded: Folded) -> QueryState:
    """The state with the batch in its totals."""
    totals = QueryTotals(
        rows=state.totals.rows + folded.rows,
        late=state.totals.late + folded.late,
        bad=state.totals.bad + folded.bad,
        shed=state.totals.shed + folded.shed,
        windows=state.totals.windows + len(done.sizes),
        results=state.totals.results + sum(done.sizes.values()),
    )
    return replace(state, totals=totals)


def _closed_between(state: QueryState, before: int | None, after: int | None) -> list[Part]:
    """Parts of the panes that closed in this batch."""
    if after is None:
        return []
    return [p for p in state.parts if p.pane < after and (before is None or p.pane >= before)]
