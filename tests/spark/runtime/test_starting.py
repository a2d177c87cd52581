"""What the words of ``start`` mean for all kinds of runs."""

from types import SimpleNamespace

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
