"""The Prometheus endpoint."""

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Step
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.guards import Bound, Guards
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.spark.metrics_endpoint import MetricsEndpoint, outcome
from waiting import PATIENCE


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
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    query = ("query", 'query "a"')
    assert {k: samples[k] for k in samples if k[0] != "penstock_bound"} == {
        ("penstock_arrival_rate", (query,)): 100,
        ("penstock_capacity", (("knob", "executors"), ("query", ""), ("state", "planned"))): 3,
        ("penstock_capacity", (("knob", "executors"), ("query", ""), ("state", "requested"))): 3,
        ("penstock_capacity", (("knob", "executors"), ("query", ""), ("state", "observed"))): 2,
        ("penstock_response_seconds", (("quantile", "mean"), query)): 1,
        ("penstock_response_seconds", (("quantile", "0.5"), query)): 0.9,
        ("penstock_response_seconds", (("quantile", "0.95"), query)): 2,
        ("penstock_response_seconds", (("quantile", "0.99"), query)): 3,
        ("penstock_utilisation", (query,)): 0.5,
        ("penstock_reconfiguration_seconds", (query,)): 0,
        ("penstock_rows_total", (query,)): 400,
        ("penstock_decisions_total", (("reason", "keep"),)): 1,
        ("penstock_decisions_total", (("reason", "grow"),)): 1,
        ("penstock_changes_total", (("direction", "up"), ("knob", "executors"))): 1,
        ("penstock_core_seconds_total", ()): 8,
        ("penstock_target_seconds", ()): 3,
        ("penstock_overhead_cores", ()): 0,
    }


def test_every_metric_has_its_type_once(endpoint):
    endpoint.observed(a_step().observation)
    types = [line.split()[2] for line in read(endpoint).splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))


def test_no_series_is_told_twice_where_several_stages_have_shares_and_bounds():
    stages = [StageObservation(n, Capacity.steady(1), cpu_share=Capacity.steady(0.5)) for n in ("a", "b")]
    bounds = tuple(
        Bound(Knob.CPU_SHARE, 0.1, most, where) for most, where in ((1, ""), (0.6, "a"), (0.8, "b"))
    )
    endpoint = MetricsEndpoint("127.0.0.1:0", Guards(bounds=bounds))
    try:
        endpoint.observed(Observation(1.0, 1.0, tuple(stages), executors=Capacity.steady(1)))
        page = read(endpoint)
    finally:
        endpoint.close()
    series = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    assert 'penstock_capacity{knob="cpu_share",query="b",state="observed"}' in series
    assert 'penstock_bound{knob="cpu_share",query="a",side="most"}' in series


def test_decisions_are_counted_by_what_came_of_them():
    grow = Change(Knob.EXECUTORS, "", 4)
    assert outcome(a_step()) == "keep"
    assert outcome(a_step(grow)) == "grow"
    assert outcome(a_step(Change(Knob.EXECUTORS, "", 1))) == "shrink"
    assert outcome(a_step(grow, mode="rollback")) == "rollback"
    assert outcome(a_step(grow, applied=False)) == "refused"


@pytest.mark.parametrize("address", ["localhost:", "127.0.0.1:99999", ":80:"])
def test_an_impossible_address_is_one_sentence(address):
    with pytest.raises(PenstockError, match=r"(?i)metrics"):
        MetricsEndpoint(address, Guards())
