"""A browser for all tests of the page in one process, a plane for most of them, and a browser context for each."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from tests.page import browser as browsers
from tests.page.gated import AGENT, Gate
from tests.support.postgres import Cluster
from tests.system.plane import STEADY, Plane, running
from tests.system.wire import client

if TYPE_CHECKING:
    from playwright.async_api import Browser
    from tests.page.app import App

HERE = Path(__file__).parent
PAGE = files("taskplane.gateway") / "dist" / "index.html"
SETTINGS = {**STEADY, "TASKPLANE_EXECUTOR_AGENTS": AGENT}
VIEWPORT = {"width": 1280, "height": 900}

collect_ignore_glob = ["*.py"] if browsers.missing().startswith("the package") else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all tests of the page the event loop of the browser; skip them if there is no browser."""
    reason = browsers.missing() or ("" if PAGE.is_file() else "the page is not built; `make ui` builds it")
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> "AsyncIterator[Browser]":
    """One browser for each process that runs tests."""
    assert not browsers.missing(), browsers.missing()
    async with browsers.launched() as launched:
        yield launched


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def one_process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A `taskplane dev` on SQLite that no test kills."""
    async with running("one", tmp_path_factory.mktemp("one"), SETTINGS) as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def four_processes(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> AsyncIterator[Plane]:
    """Four processes on PostgreSQL, of which tests kill some, and start them again."""
    async with running("four", tmp_path_factory.mktemp("four"), SETTINGS, server=cluster) as started:
        yield started


@pytest.fixture(params=["one_process"])
def plane(request: pytest.FixtureRequest) -> Plane:
    """The plane of a test, as its mark chooses (see `marks`)."""
    found: Plane = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate that a run waits for. It is opened at the end of the test at the latest."""
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


@pytest.fixture
def user() -> str:
    """A new user for each test, so the list has no sessions of others."""
    return f"user-{uuid4().hex[:8]}"


@pytest_asyncio.fixture(loop_scope="session")
async def http(plane: Plane, user: str) -> AsyncIterator[httpx.AsyncClient]:
    """Another client of the same user."""
    async with client(plane.url, **{"X-User-Id": user}) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def another(
    plane: Plane, user: str, browser: "Browser", request: pytest.FixtureRequest
) -> "AsyncIterator[Callable[..., Awaitable[App]]]":
    """`await another()` opens a tab in a new browser of the same user; with another App, a further tab of that browser.
    The test fails if an error occurs in any of them that it did not allow."""
    from tests.page.app import App
    from tests.page.seen import Seen

    made: list[Seen] = []
    async with AsyncExitStack() as stack:

        async def another(beside: App | None = None, **options: Any) -> App:
            if beside is not None:
                return App(await beside.page.context.new_page(), beside.url, beside.seen)
            values: dict[str, Any] = {"viewport": VIEWPORT, "extra_http_headers": {"X-User-Id": user}, **options}
            context = await browser.new_context(**values)
            stack.push_async_callback(context.close)
            seen = Seen()
            seen.watch(context)
            made.append(seen)
            return App(await context.new_page(), plane.url, seen)

        yield another
    assert [wrong for seen in made for wrong in seen.unexpected()] == []


@pytest_asyncio.fixture(loop_scope="session")
async def app(another: "Callable[..., Awaitable[App]]") -> "App":
    """A tab that has not loaded anything yet."""
    return await another()
