"""Three hosts, a checkpoint in an object store: one host is cut off and comes back, the other is killed."""

import pytest

from penstock.core.errors import PenstockError
from penstock.testing.s3 import found_server
from penstock_lab.benches import hosts
from penstock_lab.network_hosts import Hosts


@pytest.mark.cluster
@pytest.mark.kill
@pytest.mark.long
@pytest.mark.parametrize("kind", hosts.PARTS)
def test_a_host_that_is_cut_off_and_one_that_is_killed_change_nothing(kind, tmp_path):
    try:
        found_server()
        with Hosts(1):
            pass
    except PenstockError as error:
        pytest.skip(str(error))
    page = hosts.run(True, tmp_path, kind)
    assert {claim.holds for claim in page.claims} == {True}
    rows = page.tables[0].rows
    assert all(row[page.tables[0].columns.index("hosts")] == 2 for row in rows), "workers on both hosts"
