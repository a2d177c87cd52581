"""What the words of ``start`` mean for all kinds of runs."""

from types import SimpleNamespace

import pytest

from penstock.policies import Autopilot, Hpa, Mead, Mpc
from penstock.policies.own_process import OwnProcess
from penstock.spark.runtime.policy_target import PolicyTarget
from penstock.spark.runtime.starting import hand_on_store_settings


def test_workers_get_the_drivers_settings_of_stores_but_not_the_folder_of_its_own_host(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "here")
    monkeypatch.setenv("PENSTOCK_STATE_CACHE", "/a/folder/of/the/driver")
    monkeypatch.setenv("PENSTOCK_STATE_CACHE_MB", "64")
    environment: dict[str, str] = {}
    hand_on_store_settings(SimpleNamespace(sparkContext=SimpleNamespace(environment=environment)))
    assert environment["AWS_REGION"] == "here"
    assert environment["PENSTOCK_STATE_CACHE_MB"] == "64"
    assert "PENSTOCK_STATE_CACHE" not in environment


@pytest.mark.parametrize(
    ("policy", "aim"),
    [
        (Mpc("latency", target=2.0), (2.0, "latency_mean")),
        (Mpc("latency", target=2.0, waiting="map", percentile=0.95), (2.0, "latency_p95")),
        (Mpc("throughput", target=2.0), None),
        (OwnProcess(Mead(target=3.0)), (3.0, "latency_mean")),
        (Mead(targets={"matcher": 0.2}), None),
        (Autopilot(target=5.0, late=0.01), (5.0, "latency_p99")),
        (Hpa(), None),
        (SimpleNamespace(target=0.7), None),
        (SimpleNamespace(target="soon", percentile=None), None),
        (None, None),
    ],
)
def test_a_run_shows_the_response_that_its_policy_aims_at(policy, aim):
    shown = PolicyTarget.of(policy)
    assert (shown and (shown.seconds, shown.metric)) == aim
