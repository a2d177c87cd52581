"""A run of MEAD's log analysis begins its load when its first batch is done."""

from types import SimpleNamespace

from penstock.spark.attach.query_listener import QueryWatch
from penstock_lab.trials.chain import FIRST, warm_up


def watcher():
    return SimpleNamespace(queries={"id": QueryWatch("id", "q", 1.0)})


def tell(watchers, number, rows):
    """A batch is done."""
    report = {"batchId": number, "timestamp": f"2026-01-01T00:00:0{number}.000Z", "numInputRows": rows}
    for one in watchers:
        one.queries["id"].progress({**report, "durationMs": {"triggerExecution": 15_000}})


def test_the_first_batch_is_waited_for_and_forgotten_and_later_ones_are_not(tmp_path):
    watchers, looks = (watcher(), watcher()), []

    def running():
        looks.append((tmp_path / "000000.log").read_text().count("\n"))
        if len(looks) == 2:
            tell(watchers, 0, FIRST)
        return True

    warm_up(tmp_path, ["one", "two"], watchers, running)
    assert looks == [FIRST] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["000000.log"]
    tell(watchers, 1, 7)
    for one in watchers:
        assert [batch.rows for batch in one.queries["id"].take()] == [7]


def test_a_query_that_ends_is_waited_for_no_longer(tmp_path):
    warm_up(tmp_path, ["one"], (watcher(),), lambda: False)
