"""The Prometheus endpoint."""

import re
import urllib.error
import urllib.request

import pytest

from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Step
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.guards import Bound, Guards
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.spark.metrics_endpoint import MetricsEndpoint, outcome
from waiting import PATIENCE

LINE = re.compile(r'^penstock_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+0-9.e]+$')


def a_step(change=None, mode="", applied=True):
    stage = StageObservation(
        'query "a"',
        Capacity.steady(2),
        arrival_rate=100.0,
        tuples_in=200.0,
        latency=Latency(1.0, 0.9, 2.0, 3.0, 4.0),
        utilisation=0.5,
    )
    observation = Observation(10.0, 2.0, (stage,), executors=Capacity(3, 3, 2))
    decision = Decision((change,) if change else (), "because")
    done = Applied((change,)) if change and applied else None
    return Step(observation, decision, decision, (), mode, done)


@pytest.fixture
def endpoint():
    made = MetricsEndpoint("127.0.0.1:0", Guards(bounds=(Bound(Knob.EXECUTORS, 1, 8),)), target=3.0)
    made.start()
    yield made
    made.close()


def read(endpoint, path="/metrics"):
    with urllib.request.urlopen(f"http://{endpoint.address}{path}", timeout=PATIENCE) as answer:
        return answer.read().decode()


def test_the_page_tells_load_capacity_response_and_decisions(endpoint):
    for step in (a_step(), a_step(Change(Knob.EXECUTORS, "", 4))):
        endpoint.observed(step.observation)
        endpoint.decided(step)
    page = read(endpoint)
    for line in page.splitlines():
        assert line.startswith("# ") or LINE.match(line.replace(r"\"", "'")), line
    assert 'penstock_arrival_rate{query="query \\"a\\""} 100' in page
    assert 'penstock_capacity{knob="executors",state="planned"} 3' in page
    assert 'penstock_capacity{knob="executors",state="observed"} 2' in page
    assert 'penstock_response_seconds{query="query \\"a\\"",quantile="0.95"} 2' in page
    assert 'penstock_decisions_total{reason="keep"} 1' in page
    assert 'penstock_decisions_total{reason="grow"} 1' in page
    assert 'penstock_changes_total{knob="executors",direction="up"} 1' in page
    assert "penstock_core_seconds_total 8" in page
    assert "penstock_target_seconds 3" in page


def test_every_metric_has_its_type_once(endpoint):
    endpoint.observed(a_step().observation)
    types = [line.split()[2] for line in read(endpoint).splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))


def test_other_paths_are_not_found(endpoint):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(endpoint, "/secrets")


def test_decisions_are_counted_by_what_came_of_them():
    grow = Change(Knob.EXECUTORS, "", 4)
    assert outcome(a_step()) == "keep"
    assert outcome(a_step(grow)) == "grow"
    assert outcome(a_step(Change(Knob.EXECUTORS, "", 1))) == "shrink"
    assert outcome(a_step(grow, mode="rollback")) == "rollback"
    assert outcome(a_step(grow, applied=False)) == "refused"


@pytest.mark.parametrize("address", ["9108", "localhost:", "127.0.0.1:99999", ":80:"])
def test_an_impossible_address_is_one_sentence(address):
    with pytest.raises(PenstockError, match=r"(?i)metrics"):
        MetricsEndpoint(address, Guards())
