"""One plane for all scenarios; no scenario sees anything of another one."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.scenarios.agent_a2a_sdk import Scenarios
from tests.scenarios.plane import Served, serving
from tests.scenarios.script import GATES
from tests.support.sdk_server import sdk_server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    """An agent of every kind, served. The remote one has its server in this process."""
    folder = tmp_path_factory.mktemp("scenarios")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GATES, str(folder))
        async with sdk_server(Scenarios()) as server, serving(folder, server.url) as started:
            yield started
