import pytest

from penstock.core.errors import PenstockError
from penstock.models import Erlang, Poisson
from penstock.models.network import Application, Edge, Station


def _station(name: str, **options: float | bool) -> Station:
    return Station(name, Erlang(2, 0.1), **options)  # type: ignore[arg-type]


def test_visits_multiply_selectivities_and_fractions_along_the_way() -> None:
    app = Application(
        [
            _station("in", selectivity=0.5),
            _station("left"),
            _station("right", selectivity=3.0),
            _station("out"),
        ],
        [Edge("in", "left", 0.25), Edge("in", "right", 0.75), Edge("left", "out"), Edge("right", "out")],
        {"in": Poisson(1.0)},
    )
    assert app.visits["left"]["in"] == pytest.approx(0.125)
    assert app.visits["out"]["in"] == pytest.approx(0.125 + 0.375 * 3)
    assert app.paths == (("in", "left", "out"), ("in", "right", "out"))


def test_a_join_counts_the_copies_of_a_tuple_once() -> None:
    app = Application(
        [_station("fork"), _station("a"), _station("b"), _station("join", join=True)],
        [Edge("fork", "a"), Edge("fork", "b"), Edge("a", "join"), Edge("b", "join")],
        {"fork": Poisson(1.0)},
    )
    assert app.visits["join"] == {"fork": 1.0}


def test_a_smaller_cpu_share_takes_longer() -> None:
    assert Station("a", Erlang(2, 0.1), share=0.5).effective.mean == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("stations", "edges", "sources", "words"),
    [
        (["a", "a"], [], ["a"], "name of its own"),
        (["a"], [("a", "b")], ["a"], "No station is called 'b'"),
        (["a"], [], [], "external arrivals"),
        (["a", "b"], [("a", "b"), ("b", "a")], ["a"], "cycle"),
        (["a", "b"], [], ["a"], "Nothing flows into station 'b'"),
    ],
)
def test_graphs_that_make_no_sense_are_refused(
    stations: list[str], edges: list[tuple[str, str]], sources: list[str], words: str
) -> None:
    with pytest.raises(PenstockError, match=words):
        Application(
            [_station(name) for name in stations],
            [Edge(*edge) for edge in edges],
            {name: Poisson(1.0) for name in sources},
        )


def test_joins_of_branches_that_drop_tuples_are_refused() -> None:
    with pytest.raises(PenstockError, match="copies never meet"):
        Application(
            [_station("fork"), _station("a", selectivity=0.5), _station("b"), _station("join", join=True)],
            [Edge("fork", "a"), Edge("fork", "b"), Edge("a", "join"), Edge("b", "join")],
            {"fork": Poisson(1.0)},
        )


def test_impossible_stations_and_edges_are_refused() -> None:
    with pytest.raises(PenstockError):
        _station("a", selectivity=-1.0)
    with pytest.raises(PenstockError):
        _station("a", share=0.0)
    with pytest.raises(PenstockError):
        Edge("a", "b", 0.0)


@pytest.mark.parametrize(
    ("fraction", "first"), [(0.5, 1.0), (1.0, 0.5)], ids=["one way or the other", "dropped on the way"]
)
def test_joins_whose_copies_are_lost_before_the_last_station_are_refused(
    fraction: float, first: float
) -> None:
    stations = [
        _station("fork"),
        _station("a", selectivity=first),
        _station("b", selectivity=first),
        _station("a2"),
        _station("b2"),
        _station("join", join=True),
    ]
    edges = [Edge("fork", "a", fraction), Edge("fork", "b", fraction), Edge("a", "a2"), Edge("b", "b2")]
    edges += [Edge("a2", "join"), Edge("b2", "join")]
    with pytest.raises(PenstockError, match="never meet"):
        Application(stations, edges, {"fork": Poisson(1.0)})
