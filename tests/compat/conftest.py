"""One plane and one runtime of kagent and ADK parts for all tests here, because most of the time is their start."""

from collections.abc import AsyncGenerator
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from tests.compat.process import READY, Runtime, running
from tests.system.plane import Plane
from tests.system.plane import running as plane_running
from tests.system.wire import client


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Skips the tests without the environment of those packages."""
    if not READY.exists():
        pytest.skip("kagent and ADK are not installed beside us; `make compat` installs them and runs this")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plane(environment: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane]:
    """`taskplane dev` in a process of its own."""
    async with plane_running("one", tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime(plane: Plane) -> AsyncGenerator[Runtime]:
    """The runtime that stores its tasks and sessions in the plane."""
    async with running(plane.url, plane.data / "runtime.log") as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def address(runtime: Runtime) -> str:
    """The address of kagent's application, in the process of the runtime."""
    found: str = await runtime.call("serve", stream=True)
    return found


@pytest.fixture
def user() -> str:
    """A user of one test only."""
    return f"user-{uuid4().hex[:8]}"


@pytest_asyncio.fixture(loop_scope="session")
async def http(plane: Plane, user: str) -> AsyncGenerator[httpx.AsyncClient]:
    """Calls of the user to the plane, without the runtime."""
    async with client(plane.url, **{"X-User-Id": user}) as made:
        yield made
