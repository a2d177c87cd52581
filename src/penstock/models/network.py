"""An application as a graph of single-server stations: what is connected to what, and which paths tuples take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from penstock.core.errors import PenstockError
from penstock.models.map import MAP
from penstock.models.phase_type import PH


@dataclass(frozen=True, eq=False)
class Station:
    """One operator on one CPU.

    ``service`` is its demand per tuple on a whole CPU; with a CPU ``share`` it takes 1/share times as long. Each
    input makes ``selectivity`` outputs on average (below 1 a filter, above 1 a batch of copies). A station with
    ``join`` waits for the copies of a tuple from all its inputs and then serves them as one.
    """

    name: str
    service: PH
    selectivity: float = 1.0
    share: float = 1.0
    join: bool = False

    def __post_init__(self) -> None:
        if self.selectivity < 0.0:
            raise PenstockError(f"Station '{self.name}' has a selectivity below zero; give zero or more.")
        if not 0.0 < self.share <= 1.0:
            raise PenstockError(
                f"Station '{self.name}' has a CPU share of {self.share}; give a number above 0 up to 1."
            )

    @cached_property
    def effective(self) -> PH:
        """Service time at the station's CPU share."""
        return self.service if self.share == 1.0 else self.service.scaled(self.service.mean / self.share)


@dataclass(frozen=True)
class Edge:
    """Outputs of ``source`` go to ``target``, each with probability ``fraction``: 1 on every edge is a copy to all."""

    source: str
    target: str
    fraction: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise PenstockError(
                f"The edge {self.source} -> {self.target} carries a fraction of {self.fraction}; give a number above 0 up to 1."
            )


@dataclass(frozen=True, eq=False)
class Application:
    """Stations, edges and the external arrivals of the source stations; checked to be a graph without cycles.

    >>> from penstock.models import Erlang, Poisson
    >>> app = Application(
    ...     [Station("parse", Erlang(2, 0.002)), Station("count", Erlang(2, 0.004))],
    ...     [Edge("parse", "count")],
    ...     {"parse": Poisson(100.0)},
    ... )
    >>> app.order, app.paths
    (('parse', 'count'), (('parse', 'count'),))
    """

    stations: Sequence[Station]
    edges: Sequence[Edge]
    sources: Mapping[str, MAP]

    def __post_init__(self) -> None:
        names = [station.name for station in self.stations]
        if len(set(names)) != len(names) or not names:
            raise PenstockError(
                "An application has at least one station, and every station a name of its own."
            )
        named = (
            {edge.source for edge in self.edges} | {edge.target for edge in self.edges} | set(self.sources)
        )
        if unknown := sorted(named - set(names)):
            raise PenstockError(f"No station is called '{unknown[0]}'; the stations are {', '.join(names)}.")
        if not self.sources:
            raise PenstockError("An application needs the external arrivals of at least one station.")
        self._check_reached()
        self._check_joins()

    def station(self, name: str) -> Station:
        """The station of this name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Station]:
        return {station.name: station for station in self.stations}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names so that every station comes after those that feed it."""
        feeding: dict[str, set[str]] = {station.name: set() for station in self.stations}
        for edge in self.edges:
            feeding[edge.target].add(edge.source)
        try:
            return tuple(TopologicalSorter(feeding).static_order())
        except CycleError as error:
            raise PenstockError(
                f"The stations {' -> '.join(error.args[1])} form a cycle; streams must flow one way."
            ) from None

    def inputs(self, name: str) -> list[Edge]:
        """Edges into a station."""
        return [edge for edge in self.edges if edge.target == name]

    def outputs(self, name: str) -> list[Edge]:
        """Edges out of a station."""
        return [edge for edge in self.edges if edge.source == name]

    @cached_property
    def visits(self) -> dict[str, dict[str, float]]:
        """For each station, how many inputs it gets per tuple of each source; a join counts its copies once."""
        visits: dict[str, dict[str, float]] = {}
        for name in self.order:
            here: dict[str, float] = {name: 1.0} if name in self.sources else {}
            edges = self.inputs(name)
            for source in {key for edge in edges for key in visits[edge.source]}:
                flows = [
                    visits[e.source].get(source, 0.0) * self.station(e.source).selectivity * e.fraction
                    for e in edges
                ]
                here[source] = here.get(source, 0.0) + (min(flows) if self.station(name).join else sum(flows))
            visits[name] = here
        return visits

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Every way from a source to a sink."""
        found: list[tuple[str, ...]] = []

        def extend(path: tuple[str, ...]) -> None:
            following = self.outputs(path[-1])
            if not following:
                found.append(path)
            for edge in following:
                extend((*path, edge.target))

        for source in self.order:
            if source in self.sources:
                extend((source,))
        return tuple(found)

    def _check_reached(self) -> None:
        for name in self.order:
            if not self.visits[name]:
                raise PenstockError(
                    f"Nothing flows into station '{name}'; connect it or give it external arrivals."
                )

    def _check_joins(self) -> None:
        for station in self.stations:
            edges = self.inputs(station.name)
            if not station.join:
                continue
            if len(edges) < 2 or station.name in self.sources:
                raise PenstockError(
                    f"Station '{station.name}' joins copies, so it needs two inputs or more and no arrivals of its own."
                )
            if not self._copies_meet(station.name):
                raise PenstockError(
                    f"Station '{station.name}' joins branches that drop or multiply tuples, so some copies never meet; filter before the fork or after the join."
                )

    def _copies_meet(self, join: str) -> bool:
        """Whether a copy of every tuple comes along each branch: nothing is dropped, multiplied or sent one way only after the fork."""
        ways = {way[: way.index(join) + 1] for way in self.paths if join in way}
        shared = 0
        while len({way[shared] for way in ways}) == 1 and shared + 1 < min(map(len, ways)):
            shared += 1
        if not shared:  # streams of different sources
            return False
        fractions = {(edge.source, edge.target): edge.fraction for edge in self.edges}
        return all(
            fractions[way[at], way[at + 1]] == 1.0
            and (at < shared or self.station(way[at]).selectivity == 1.0)
            for way in ways
            for at in range(shared - 1, len(way) - 1)
        )
