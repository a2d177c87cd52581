"""All that the page knows of a run: the records of a journal in, what a reader lacks out; of bounded size."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any

from penstock.core.changes_made import EFFECT, Made
from penstock.core.control_quality import RunningQuality
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.core.records import decode
from penstock.core.tables import change_rows, decision_row
from penstock.page.points import JOINS, points
from penstock.page.stage_graph import graph
from penstock.page.thinning import START, Mark, Scale, Tail

#: Points of a whole run; seconds of the recent past, and of one point in it.
ROOM, RECENT, RECENT_STEP = 1_000, 120.0, 0.1
#: Decisions and warnings that the page lists; all of them stand in the journal.
ROWS = 400


@dataclass(frozen=True)
class Bookmark:
    """How far a reader has come."""

    whole: Mark = START
    recent: Mark = START
    decisions: int = 0
    warnings: int = 0
    version: int = -1


class Story:
    """Takes the records of a run one by one; any thread may read.

    Parameters
    ----------
    name
        What the run is called where its journal does not say.
    target
        The response target in seconds, in place of the journal's own.
    """

    def __init__(self, name: str = "Run", target: float | None = None) -> None:
        self._lock = threading.Lock()
        self._name, self._given = name, target
        self._run: dict[str, Any] = {}
        self._queries: dict[str, None] = {}  # in the order in which they were seen
        self._policies: dict[str, None] = {}
        self._base, self._wall, self._last = 0.0, False, float("-inf")
        self._whole = Scale(JOINS, ROOM)
        self._recent = Scale(JOINS, int(RECENT / RECENT_STEP) + 2, RECENT_STEP, RECENT)
        self._decisions, self._warnings = Tail(ROWS), Tail(ROWS)
        self._quality = RunningQuality(Metric.LATENCY_P95, nan if target is None else target)
        self._latest: Observation | None = None
        self._most_cores = 0.0  # at any time: the curve averages what is close together
        self._version = 0
        self._state = "running"

    @property
    def quality(self) -> RunningQuality:
        """The figures of the run so far."""
        return self._quality

    def take(self, record: Mapping[str, Any]) -> None:
        """Take one record of a journal."""
        with self._lock:
            taken = {
                "run": self._header,
                "observation": self._observation,
                "decision": self._decision,
                "reconfiguration": self._reconfiguration,
                "warning": self._warning,
            }.get(str(record.get("kind")))
            if taken is not None:
                taken(record)
                self._version += 1

    def take_all(self, records: Iterable[Mapping[str, Any]]) -> "Story":
        """Take many."""
        for record in records:
            self.take(record)
        return self

    def warn(self, text: str) -> None:
        """Tell something about the journal that does not stand in it, at the newest time there is."""
        with self._lock:
            self._warnings.append({"time": max(self._base, self._last), "text": text})
            self._version += 1

    def told(self, state: str) -> None:
        """The run is ``running``, ``paused``, ``ended``, or only ``recorded`` in a journal."""
        with self._lock:
            self._version += state != self._state
            self._state = state

    def since(self, place: Bookmark) -> tuple[dict[str, Any] | None, Bookmark]:
        """What a reader lacks, None where it lacks nothing, and where it stands then."""
        with self._lock:
            if place.version == self._version:
                return None, place
            whole, at_whole = self._whole.since(place.whole)
            recent, at_recent = self._recent.since(place.recent)
            lists = {
                "decisions": self._decisions.since(place.decisions),
                "warnings": self._warnings.since(place.warnings),
            }
            now = Bookmark(
                at_whole,
                at_recent,
                max(0, self._decisions.end - 1),  # the last row may still grow
                self._warnings.end,
                self._version,
            )
            news = {**self._facts(), "whole": whole, "recent": recent, **lists}
            return {k: v for k, v in news.items() if v is not None}, now

    @property
    def title(self) -> str:
        """What ran, by the names in its journal."""
        run = self._run
        if "flow" in run:
            return f"Flow {run['flow']}"
        if run.get("query"):
            return f"Query {run['query']}"
        if run.get("plant") == "spark" and self._queries:
            return f"{'Query' if len(self._queries) == 1 else 'Queries'} {', '.join(self._queries)}"
        return self._name

    def _facts(self) -> dict[str, Any]:
        quality = self._quality
        figures = asdict(quality.result()) | {
            "core_seconds": quality.core_seconds,
            "static_peak_core_seconds": quality.static_peak,
            "static_peak_cores": self._most_cores,
        }
        return {
            "title": self.title,
            "clock": "wall" if self._wall else "run",
            "state": self._state,
            "policies": list(self._policies),
            "target": quality.target if isfinite(quality.target) else None,
            "metric": quality.metric.value,
            "figures": {k: v if v is None or isfinite(v) else None for k, v in figures.items()},
            "graph": [] if self._latest is None else graph(self._latest),
        }

    def _header(self, record: Mapping[str, Any]) -> None:
        # A further part of the same start has its header again, and its clock goes on.
        same = record.get("continued") and record.get("started") == self._run.get("started")
        self._run |= record
        if not (same and isfinite(self._last)):
            self._begin(record)
        if self._given is None:  # a start without a target has none, whatever the one before had
            name = record.get("metric", Metric.LATENCY_P95.value)
            self._quality.metric = next((m for m in Metric if m.value == name), Metric.LATENCY_P95)
            self._quality.target = float(record.get("target", nan))

    def _begin(self, record: Mapping[str, Any]) -> None:
        """Another start, whose times count from its own beginning."""
        try:
            started = float(record["started"])
        except (KeyError, TypeError, ValueError):
            if isfinite(self._last):
                self._base = self._last  # a clock that begins anew goes on where the one before ended
        else:
            self._base, self._wall = started, True
        if isfinite(self._last):
            self._whole.gap(max(self._base, self._last))
            self._recent.gap(max(self._base, self._last))

    def _at(self, time: Any) -> float:
        """A time of the run's clock on that of the page."""
        return round(self._base + float(time), 3)

    def _observation(self, record: Mapping[str, Any]) -> None:
        seen = decode(record)
        if self._latest is not None and seen.time < self._latest.time and not self._wall:
            self._base = self._last
        self._last = time = max(self._at(seen.time), self._last)  # what is joined does not go back
        values = points(seen)
        self._whole.add(time, seen.period, values)
        self._recent.add(time, seen.period, values)
        self._most_cores = max(self._most_cores, values.get("cores", 0.0))
        self._quality.observe(seen)
        self._queries |= dict.fromkeys(stage.name for stage in seen.stages)
        if seen.stages or self._latest is None:
            self._latest = seen

    def _decision(self, record: Mapping[str, Any]) -> None:
        self._policies[str(record.get("policy", ""))] = None
        row = decision_row(record)
        wanted = str(row.get("wanted") or "")
        words = {
            "changes": str(row.get("changes") or ""),
            "mode": str(row.get("mode") or ""),
            "reason": str(row.get("reason") or ""),
            "notes": str(row.get("notes") or ""),
            "wanted": wanted if wanted != row.get("changes") else "",
        }
        time, last = self._at(record["time"]), self._decisions.last
        if last is not None and not words["changes"] and _alike(last, words):
            last |= {"until": time, "count": last["count"] + 1}
        else:
            self._decisions.append({"time": time, "until": time, "count": 1, **words})

    def _reconfiguration(self, record: Mapping[str, Any]) -> None:
        for row in change_rows([record]):
            sizes = [nan if row[k] is None else float(row[k]) for k in ("before", "after")]
            self._quality.change(
                row["source"], Made(float(row["time"]), str(row["knob"]), str(row["where"]), *sizes)
            )
        if record.get("source") in (EFFECT, "by hand"):
            words = decision_row(record)
            self._decisions.append(
                {
                    "time": (at := self._at(record["time"])),
                    "until": at,
                    "count": 1,
                    "changes": str(words.get("changes") or ""),
                    "mode": str(record["source"]),
                    "reason": _cost(record),
                    "notes": "",
                    "wanted": "",
                }
            )

    def _warning(self, record: Mapping[str, Any]) -> None:
        self._warnings.append({"time": self._at(record["time"]), "text": str(record.get("text", ""))})


def _alike(row: Mapping[str, Any], words: Mapping[str, str]) -> bool:
    """Whether two decisions say the same but for their figures."""
    return all(_stem(str(row[name])) == _stem(text) for name, text in words.items())


def _stem(text: str) -> str:
    return "".join(c for c in text if not c.isdigit() and c not in ".-+e")


def _cost(record: Mapping[str, Any]) -> str:
    """What a change cost, in words."""
    parts = []
    if pause := record.get("pause"):
        parts.append(f"rows waited {float(pause):.3g} s")
    if delayed := record.get("delayed"):
        parts.append(f"{float(delayed):,.0f} of them")
    if moved := record.get("moved"):
        parts.append(f"{float(moved) / 1e6:.3g} MB of state moved")
    return ", ".join(parts)
