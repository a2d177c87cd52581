"""One Spark session for all tests that need one."""

import pytest

import penstock.spark


@pytest.fixture(scope="session")
def spark():
    session = penstock.spark.session("local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
