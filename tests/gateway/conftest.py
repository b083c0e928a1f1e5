"""A whole plane for the gateway's tests: one per module, since its start takes most of the time of a test."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.conftest import ENGINES_IF_THOROUGH
from tests.gateway.bindings import BINDINGS, HTTP_BINDINGS, LISTING, Binding, Client, HttpBinding
from tests.gateway.plane import Plane, open_all
from tests.support.databases import copied
from tests.support.postgres import Cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES_IF_THOROUGH)
async def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Plane, None]:
    """Open a gateway for the demo agent, with THOROUGH=1 on each engine. Tests that share it use contexts of their
    own."""
    folder = tmp_path_factory.mktemp("plane")
    if request.param == "sqlite":
        async with open_all(folder) as plane:
            yield plane
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    async with copied(cluster) as url, open_all(folder, database_url=url) as plane:
        yield plane


@pytest.fixture(params=BINDINGS, ids=lambda binding: binding.name)
def binding(request: pytest.FixtureRequest) -> Binding:
    """Return each binding of each version."""
    found: Binding = request.param
    return found


@pytest.fixture(params=HTTP_BINDINGS, ids=lambda binding: binding.name)
def http_binding(request: pytest.FixtureRequest) -> HttpBinding:
    """Return each binding over HTTP."""
    found: HttpBinding = request.param
    return found


@pytest.fixture
def client(plane: Plane, binding: Binding) -> Client:
    """Return a client of the plane over each binding."""
    return Client(plane, binding)


@pytest.fixture(params=LISTING, ids=lambda binding: binding.name)
def lister(request: pytest.FixtureRequest, plane: Plane) -> Client:
    """Return a client of the plane over each binding with a list of tasks."""
    return Client(plane, request.param)
