"""The driver's side of the window stage: which panes close, which windows are due, which tasks do the work."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.preference import window_scheduling
from penstock.preference.panes import PaneModel
from penstock.spark.query import window_tasks
from penstock.spark.query.live_stage import LiveStage, by_dominance
from penstock.spark.query.pane_stage import GroupedPreference, Part
from penstock.spark.query.query_state import QueryState
from penstock.spark.query.reports import WindowReport, run_stage
from penstock.spark.query.two_stacks_stage import TwoStacksStage
from penstock.spark.query.window_rows import Parts, Span, WindowWriter
from penstock.spark.query.window_tasks import AnswerStage, FactorStage, MergeStage, WindowStage, WindowTask
from penstock.spark.runtime.engine import Engine
from penstock.spark.runtime.orders import ArrowFunction

SHARED = "SHARED"
PLAIN = "WIN_PLAIN"
STRATEGIES = (SHARED, *window_tasks.STRATEGIES, PLAIN)

#: A round of the window stage is one Spark job. It takes as many panes as have so many rows together, since rows of one
#: round are compared before they are thinned out, but at least so many panes (or a window's worth): a job has its price.
ROUND_ROWS = 6_000
ROUND_PANES = 8


@dataclass(frozen=True)
class Windowed:
    """What the window stage came to: its state, the windows' sizes, the files written, what the workers did."""

    state: QueryState
    sizes: dict[int, int] = field(default_factory=dict)
    output_files: tuple[str, ...] = ()
    busy: tuple[float, ...] = ()
    candidates: tuple[int, ...] = ()
    write: float = 0.0
    live_rows: int = 0


@dataclass(frozen=True)
class WindowStep:
    """The window stage of one query; ``strategy`` is one of :data:`STRATEGIES`."""

    grouped: GroupedPreference
    model: PaneModel
    schema: pa.Schema
    time: str
    strategy: str
    state_folder: str
    staging: str
    prefix: str

    def is_due(self, state: QueryState) -> bool:
        """Whether some window is complete and was not given out."""
        punctuation = state.disorder.punctuation
        panes = sorted({part.pane for part in state.parts})
        return punctuation is not None and bool(
            len(self.model.windows_to_emit(panes, punctuation, state.last_window))
        )

    def run(self, engine: Engine, state: QueryState) -> Windowed:
        """Close the panes that the punctuation has passed and give out the windows that are complete."""
        punctuation = state.disorder.punctuation
        if punctuation is None:
            return Windowed(state)
        panes = sorted({part.pane for part in state.parts})
        closed_before = self.model.closed_before(punctuation)
        numbers = self.model.windows_to_emit(panes, punctuation, state.last_window)
        due = tuple(self._span(int(n)) for n in numbers)
        complete = self.model.complete_up_to(punctuation)
        last = complete if state.last_window is None else max(complete, state.last_window)
        state = replace(state, closed_before=closed_before, last_window=last)
        needed_from = self.model.first_pane_needed(last)
        if self.strategy == SHARED:
            done = self._shared(engine, state, due, needed_from)
        else:
            done = self._per_window(engine, state, due)
        return replace(done, state=_expired(done.state, needed_from))

    def _span(self, number: int) -> Span:
        first, last = self.model.panes_of_window(number)
        starts, ends = self.model.window_bounds([number])
        return Span(number, first, last, int(starts[0]), int(ends[0]))

    def _shared(self, engine: Engine, state: QueryState, due: tuple[Span, ...], needed_from: int) -> Windowed:
        # Slices of rows, unlike those of classes, cannot be cut anew: with other slices the stacks are built again.
        kind = "live" if by_dominance(self.grouped.preference) else f"stacks {self._row_slices(state)}"
        state, closing = closing_panes(state, kind)
        done = Windowed(state)
        if not closing and not due:
            return done
        rows = Counter[int]()
        for part in state.parts:
            rows[part.pane] += part.rows
        least = max(ROUND_PANES, self.model.panes_per_window)
        for number, some in enumerate(rounds(closing, rows, least)):
            final = not closing or some[-1] == closing[-1]
            until = None if final else closing[closing.index(some[-1]) + 1]
            now = tuple(w for w in due if until is None or w.last < until)
            due = due[len(now) :]
            keep = needed_from if final else min([needed_from, *(w.first for w in due)])
            done = self._round(engine, done, kind, tuple(some), now, keep, number)
        return done

    def _row_slices(self, state: QueryState) -> int:
        """Into how many slices single rows are dealt; 0 where whole classes are."""
        return 0 if Parts(self.grouped, self.state_folder, ()).classed else state.window_workers

    def _round(
        self,
        engine: Engine,
        done: Windowed,
        kind: str,
        closing: tuple[int, ...],
        due: tuple[Span, ...],
        needed_from: int,
        number: int,
    ) -> Windowed:
        state = done.state
        parts = Parts(self.grouped, self.state_folder, state.parts)
        slices = state.window_workers
        prefix = f"{self.prefix}-r{number}"
        writer = self._writer(due, prefix, whole=slices == 1 or parts.classed)
        if kind == "live":
            stage: ArrowFunction = LiveStage(
                parts=parts,
                live=state.window_files,
                closing=closing,
                windows=due,
                panes_per_window=self.model.panes_per_window,
                needed_from=needed_from,
                slices=slices,
                prefix=prefix,
                writer=writer,
            )
        else:
            stage = TwoStacksStage(
                parts=parts,
                stacks=state.window_files,
                closing=closing,
                windows=due,
                needed_from=needed_from,
                slices=slices,
                prefix=prefix,
                writer=writer,
            )
        reports = run_stage(engine, stage, WindowReport, slices)
        if members := _members_files(reports):
            # What is left to do for live rows are their factors, which unlike an answer are work for several workers.
            if kind == "live":
                rating = FactorStage(parts, due, members, slices, prefix)
                rated = run_stage(engine, rating, WindowReport, len(due) * slices, slices)
                reports, members = reports + rated, _members_files(rated)
            answers = AnswerStage(parts, due, members, self._writer(due, prefix, whole=True))
            reports += run_stage(engine, answers, WindowReport, len(due), slices)
        state = replace(state, window_files=tuple(r.live_file for r in reports if r.live_file))
        return added(replace(done, state=state), reports)

    def _per_window(self, engine: Engine, state: QueryState, due: tuple[Span, ...]) -> Windowed:
        state = replace(state, window_kind="", window_files=(), windowed_before=None)
        if not due:
            return Windowed(state)
        parts = Parts(self.grouped, self.state_folder, state.parts)
        workers = state.window_workers
        sizes = {p.id: p.rows for p in state.parts}
        tasks = [
            WindowTask(w.number, tuple(p.id for p in state.parts if w.first <= p.pane <= w.last)) for w in due
        ]
        reports: list[WindowReport] = []
        if self.strategy == "WIN_FB_MERGE":
            first, tasks = window_tasks.merge_tasks(tasks, sizes, workers)
            if first:
                merge = MergeStage(parts, tuple(first), self.prefix)
                reports = run_stage(engine, merge, WindowReport, len(first))
                tasks = [replace(t, merged=_merged_files(reports, t.window)) for t in tasks]
        work = [sum(sizes[p] for p in task.parts) for task in tasks]
        chosen = window_scheduling.assign(self.strategy, [w.number for w in due], work, workers)
        stage = WindowStage(
            parts,
            tuple(tuple(tasks[place] for place in places) for places in chosen),
            due,
            self._writer((), self.prefix, whole=True),
        )
        reports += run_stage(engine, stage, WindowReport, workers)
        return added(Windowed(state), reports)

    def _writer(self, due: tuple[Span, ...], prefix: str, whole: bool) -> WindowWriter:
        return WindowWriter(self.grouped.preference, due, self.schema, self.time, self.staging, prefix, whole)


def closing_panes(state: QueryState, kind: str) -> tuple[QueryState, list[int]]:
    """The state as a strategy that keeps panes between batches has it next, and the panes that close now."""
    if state.window_kind != kind:
        # The state of another strategy is of no use; the parts of all needed panes are still there.
        state = replace(state, window_kind=kind, window_files=(), windowed_before=None)
    assert state.closed_before is not None
    start, end = state.windowed_before, state.closed_before
    closing = {p.pane for p in state.parts if p.pane < end and (start is None or p.pane >= start)}
    return replace(state, windowed_before=end), sorted(closing)


def _members_files(reports: Sequence[WindowReport]) -> tuple[str, ...]:
    return tuple(r.members_file for r in reports if r.members_file)


def _merged_files(reports: Sequence[WindowReport], window: int) -> tuple[str, ...]:
    return tuple(r.merged_file for r in reports if r.merged_file and r.merged_window == window)


def added(done: Windowed, reports: Sequence[WindowReport]) -> Windowed:
    """What was done before and what reports say, together."""
    sizes = Counter(done.sizes)
    for report in reports:
        sizes.update(report.sizes)
    workers = max([done.state.window_workers, *(r.worker + 1 for r in reports)])
    busy = [*done.busy, *([0.0] * (workers - len(done.busy)))]
    candidates = [*done.candidates, *([0] * (workers - len(done.candidates)))]
    for report in reports:
        busy[report.worker] += report.busy
        candidates[report.worker] += report.candidates
    return replace(
        done,
        sizes=dict(sizes),
        output_files=(*done.output_files, *(r.output_file for r in reports if r.output_file)),
        busy=tuple(busy),
        candidates=tuple(candidates),
        write=done.write + max((r.write for r in reports), default=0.0),
        live_rows=sum(r.live_rows for r in reports),
    )


def _expired(state: QueryState, needed_from: int) -> QueryState:
    """Without the panes that no window to come needs; open panes always stay."""
    limit = needed_from if state.closed_before is None else min(needed_from, state.closed_before)
    return replace(
        state,
        parts=tuple(p for p in state.parts if p.pane >= limit),
        pane_times={pane: t for pane, t in state.pane_times.items() if pane >= limit},
    )


def rounds(panes: Sequence[int], rows: Mapping[int, int], least: int) -> list[list[int]]:
    """Panes in rounds; one empty round where there are none, since windows may be due all the same.

    >>> rounds([1, 2, 3, 4, 5], {1: 4000, 2: 4000, 3: 10, 4: 10, 5: 10}, least=1)
    [[1], [2, 3, 4, 5]]
    """
    made: list[list[int]] = [[]]
    held = 0
    for pane in panes:
        if len(made[-1]) >= least and held + rows[pane] > ROUND_ROWS:
            made.append([])
            held = 0
        made[-1].append(pane)
        held += rows[pane]
    return made


def closing_parts(state: QueryState, model: PaneModel) -> list[Part]:
    """Raw parts (in-order processing) of panes that the punctuation has passed."""
    punctuation = state.disorder.punctuation
    if punctuation is None:
        return []
    limit = model.closed_before(punctuation)
    return [p for p in state.parts if p.raw and p.pane < limit]
