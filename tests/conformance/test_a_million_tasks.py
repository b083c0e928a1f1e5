"""Pages and sweeps over a million tasks on PostgreSQL go by an index, whichever plan the server chooses."""

import pytest
from bench import million
from tests.support.postgres import Cluster
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.more

# These tables are small in every plane, or empty.
SMALL = {"executor", "session_meta", "store_meta", "user_state"}


@pytest.mark.timeout(1200)
async def test_no_page_and_no_sweep_scans_a_table(cluster: Cluster) -> None:
    """C13, W17: by a plan for these parameters, and by one for any; of a million tasks with THOROUGH=1, else of
    20,000."""
    tasks = million.TASKS if THOROUGH else 20_000
    found = await million.measure(cluster.url(cluster.create()), tasks)
    assert {name: one.scans - SMALL for name, one in found.items() if one.scans - SMALL} == {}
