"""What late rows would have changed: answers and late rows of recent windows, compared once no more are waited for.

A slack by recall needs to know how many rows its answers lose. Answers are kept as they were given out, late rows as the
partial results of their panes. Once nearly all late rows of a window must have come, its true answer is that of both
together; the late rows in it were lost. For preferences by counting (``top_delta_of``, ``k_dominant_of``) rows outside the
answer would have had a say as well, so there it is a close estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Floats, Ints
from penstock.disorder import AdaptiveSlack, InOrder
from penstock.disorder.strategy import Disorder
from penstock.preference.group_codes import group_codes
from penstock.preference.panes import PaneModel
from penstock.spark.query.pane_stage import GroupedPreference
from penstock.spark.query.query_state import Judging, QueryState
from penstock.spark.query.reports import NumberedStage, run_stage
from penstock.spark.query.routing import check_rows
from penstock.spark.runtime.arrow_data import in_utc, read_rows, write_segments
from penstock.spark.runtime.engine import Engine
from penstock.spark.runtime.locations import location, read_parquet, remove
from penstock.spark.runtime.report import Report

#: Answers and late rows kept at the most; beyond it the oldest windows are judged early.
MOST_ROWS = 200_000

_WINDOW = "penstock window"
_PANE = "penstock pane"


def slack_by_recall(disorder: Disorder) -> AdaptiveSlack | None:
    """The slack that wants to know what answers lose, where there is one."""
    slack = disorder.slack if isinstance(disorder, InOrder) else disorder
    return slack if isinstance(slack, AdaptiveSlack) and slack.recall is not None else None


@dataclass(frozen=True)
class JudgingReport(Report):
    """Windows up to ``judged`` were judged: rows of their true answers, those lost, the sum of what was given up."""

    judged: int
    rows: int
    lost: int
    given_up: float
    answers: str | None
    late: str | None


@dataclass(frozen=True)
class JudgingStep:
    """The driver's side, for the queries whose slack goes by recall."""

    slack: AdaptiveSlack
    grouped: GroupedPreference
    model: PaneModel
    time: str
    state_folder: str
    prefix: str
    #: Whether files of late rows are needed further on.
    keeps_late: bool
    #: What a time counts that is no timestamp.
    unit: str = "seconds"

    def run(
        self,
        engine: Engine,
        state: QueryState,
        windows: Sequence[int],
        answers: Sequence[str],
        late: Sequence[str],
    ) -> QueryState:
        """Add the windows and late rows of a batch (Parquet files), judge what is due, and let the slack follow."""
        if state.disorder.t_max is None:
            return state
        before = _asked(state.judging, windows, state.disorder.given_up)
        # Late rows of a window are waited for from its end on; before it is given out there is nothing to judge.
        limit = self.model.complete_up_to(state.disorder.t_max - self.slack.hold(state.disorder))
        limit = min(limit, state.last_window) if state.last_window is not None else limit
        due = bool(before.files) and (before.judged is None or limit > before.judged)
        if not (due or answers or late):
            return replace(state, judging=before)
        stage = JudgingStage(
            self.grouped,
            self.model,
            self.time,
            self.state_folder,
            self.prefix,
            before,
            limit,
            tuple(answers),
            tuple(late),
            self.unit,
        )
        (report,) = run_stage(engine, stage, JudgingReport, 1)
        remove(() if self.keeps_late else map(location, late))
        disorder = state.disorder
        if report.rows:
            disorder = self.slack.judge(disorder, report.rows, report.lost, report.given_up / report.rows)
        judging = replace(
            before,
            judged=report.judged,
            asked=_needed(before.asked, report.judged + 1),
            answers=report.answers,
            late=report.late,
            rows=before.rows + report.rows,
            lost=before.lost + report.lost,
        )
        return replace(state, disorder=disorder, judging=judging)


@dataclass(frozen=True)
class JudgingStage(NumberedStage):
    """One task: reads what is kept and what is new, judges the windows up to ``limit``, writes what is left."""

    grouped: GroupedPreference
    model: PaneModel
    time: str
    state_folder: str
    prefix: str
    before: Judging
    limit: int
    answers: tuple[str, ...]
    late: tuple[str, ...]
    unit: str = "seconds"

    def piece(self, number: int) -> JudgingReport:
        """All of it."""
        answers, late = self._answers(), self._late()
        judged = self.limit if self.before.judged is None else max(self.limit, self.before.judged)
        if answers is not None and answers.num_rows > MOST_ROWS:
            judged = max(judged, int(np.sort(_numbers(answers, _WINDOW))[-MOST_ROWS - 1]))
        if late is not None and late.num_rows > MOST_ROWS:
            first = int(np.sort(_numbers(late, _PANE))[-MOST_ROWS - 1])
            judged = max(judged, first // self.model.panes_per_slide)
        rows, lost, given_up = self._judged(answers, late, judged)
        return JudgingReport(
            judged,
            rows,
            lost,
            given_up,
            self._left(answers, _WINDOW, judged + 1, "answers"),
            self._left(late, _PANE, self.model.first_pane_needed(judged), "late"),
        )

    @property
    def _columns(self) -> list[str]:
        return list(dict.fromkeys([*self.grouped.preference.columns, *self.grouped.by]))

    def _classes(self, rows: pa.Table, first: str) -> Ints:
        diffs = [a.column for a in self.grouped.preference.attributes if a.direction == "diff"]
        return group_codes(rows, [first, *self.grouped.by, *diffs])

    def _answers(self) -> pa.Table | None:
        tables = [] if self.before.answers is None else [read_rows(self.state_folder, self.before.answers, 0)]
        for file in self.answers:
            rows = in_utc(read_parquet(location(file), ["window_start", *self._columns]))
            starts = _microseconds(rows["window_start"].combine_chunks())
            numbers = pa.array(starts // self.model.slide_us)
            tables.append(_plain(rows, self._columns).append_column(_WINDOW, numbers))
        return pa.concat_tables(tables).combine_chunks() if tables else None

    def _late(self) -> pa.Table | None:
        """What panes keep of their late rows."""
        tables = [] if self.before.late is None else [read_rows(self.state_folder, self.before.late, 0)]
        names = list(dict.fromkeys([self.time, *self._columns]))
        for file in self.late:
            for batch in in_utc(read_parquet(location(file), names)).combine_chunks().to_batches():
                panes = pa.array(self.model.pane_of(check_rows(batch, self.time, (), self.unit).times))
                tables.append(
                    _plain(pa.Table.from_batches([batch]), self._columns).append_column(_PANE, panes)
                )
        if not tables:
            return None
        rows = pa.concat_tables(tables).combine_chunks()
        preference = self.grouped.preference
        return rows.take(pa.array(preference.select(preference.points(rows), self._classes(rows, _PANE))))

    def _judged(self, answers: pa.Table | None, late: pa.Table | None, until: int) -> tuple[int, int, float]:
        """Rows of the true answers, those of them that came late, the sum of what was given up for each."""
        given = None if answers is None else answers.filter(pa.array(_numbers(answers, _WINDOW) <= until))
        missed = None if late is None else self._in_windows(late, until)
        both = [table for table in (given, missed) if table is not None]
        rows = pa.concat_tables(both).combine_chunks() if both else None
        if rows is None or not rows.num_rows:
            return 0, 0, 0.0
        preference = self.grouped.preference
        points, classes = preference.points(rows), self._classes(rows, _WINDOW)
        kept = preference.select(points, classes)
        chosen, _ = preference.answer(points[kept], classes[kept])
        true = kept[chosen]
        lost = int(np.count_nonzero(true >= (0 if given is None else given.num_rows)))
        return len(true), lost, _sum_asked(self.before.asked, _numbers(rows, _WINDOW)[true])

    def _in_windows(self, late: pa.Table, until: int) -> pa.Table:
        """Each late row once for every window of it that is judged now."""
        panes = _numbers(late, _PANE)
        windows = {int(p): self._windows(int(p), until) for p in np.unique(panes)}
        counts = np.array([len(windows[p]) for p in panes.tolist()], dtype=np.int64)
        numbers = [n for p in panes.tolist() for n in windows[p]]
        rows = late.take(pa.array(np.repeat(np.arange(len(panes)), counts)))
        return rows.drop_columns(_PANE).append_column(_WINDOW, pa.array(numbers, pa.int64()))

    def _windows(self, pane: int, until: int) -> range:
        windows = self.model.windows_of_pane(pane)
        begin = windows.start if self.before.judged is None else max(windows.start, self.before.judged + 1)
        return range(begin, min(windows.stop, until + 1))

    def _left(self, rows: pa.Table | None, number: str, first: int, word: str) -> str | None:
        if rows is None:
            return None
        left = rows.filter(pa.array(_numbers(rows, number) >= first))
        if not left.num_rows:
            return None
        return write_segments(self.state_folder, f"{self.prefix}-{word}", left.schema, [left])


def _plain(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Some columns, whatever the schema says of nulls: answers and late rows are to go together."""
    return pa.table({name: rows[name] for name in names})


def _numbers(rows: pa.Table, name: str) -> Ints:
    numbers: Ints = rows[name].to_numpy()
    return numbers


def _microseconds(column: Any) -> Ints:
    """Bounds of windows, as the output has them."""
    if pa.types.is_timestamp(column.type):
        times: Ints = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_numpy()
        return times
    seconds: Floats = column.to_numpy()
    return np.rint(seconds * 1e6).astype(np.int64)


def _asked(judging: Judging, windows: Sequence[int], given_up: float) -> Judging:
    """With what is given up from the first of some new windows on."""
    if not windows or (judging.asked and judging.asked[-1][1] == given_up):
        return judging
    return replace(judging, asked=(*judging.asked, (min(windows), given_up)))


def _needed(asked: tuple[tuple[int, float], ...], first: int) -> tuple[tuple[int, float], ...]:
    """What windows from ``first`` on need: the last entry up to it and all after it."""
    older = [place for place, (window, _) in enumerate(asked) if window <= first]
    return asked[older[-1] if older else 0 :]


def _sum_asked(asked: tuple[tuple[int, float], ...], windows: Ints) -> float:
    if not asked:
        return 0.0
    starts, shares = np.array([w for w, _ in asked]), np.array([a for _, a in asked])
    return float(shares[np.maximum(np.searchsorted(starts, windows, side="right") - 1, 0)].sum())
