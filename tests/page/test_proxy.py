"""The page below a path of a proxy."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import FilePayload, expect
from tests.page.app import App
from tests.page.proxy import below, below_in_nginx
from tests.support.nginx import NO_NGINX
from tests.system.plane import Plane

pytestmark = pytest.mark.more


@pytest_asyncio.fixture(loop_scope="session", params=["any", pytest.param("nginx", marks=NO_NGINX)])
async def at(plane: Plane, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The address of the plane behind a proxy."""
    async with below_in_nginx(plane.url) if request.param == "nginx" else below("/team/plane", plane.url) as url:
        yield url


async def test_the_page_works_below_a_path_of_a_proxy_without_requests_outside_of_it(
    at: str, another: Callable[..., Awaitable[App]]
) -> None:
    """Files, calls, streams and links are relative to the page: in a new chat, in a session, after a reload there."""
    # The proxy is opened first, so it outlives the page.
    found = await another()
    app = App(found.page, at, found.seen)
    asked: list[str] = []
    app.page.on("request", lambda request: asked.append(request.url))
    await app.open("/")
    assert app.page.url.startswith(f"{at}/")
    await app.run("code")
    session = await app.in_session()
    assert app.page.url.startswith(f"{at}/ui/sessions/{session}")
    await expect(app.article(1).locator("pre .hljs-keyword").first).to_be_visible()
    await app.reload()
    await app.show("Tasks")
    await app.has_states("completed")
    await app.send("count 30 20")
    await app.answered(4)
    assert await app.counted(30) == list(range(1, 31))
    await app.open(f"/ui/sessions/{session}/")
    await app.answered(4)
    await app.sessions.get_by_role("link", name="Operations").click()
    await expect(app.page.get_by_role("heading", name="Operations")).to_be_visible()
    assert app.page.url.startswith(f"{at}/ui/ops")
    assert [each for each in asked if not each.startswith((f"{at}/", "data:", "blob:"))] == []


async def test_below_a_path_a_message_may_be_as_large_as_the_gateway_allows(
    at: str, another: Callable[..., Awaitable[App]]
) -> None:
    found = await another()
    app = App(found.page, at, found.seen)
    await app.open("/ui/")
    big = FilePayload(name="big.txt", mimeType="text/plain", buffer=b"x" * 4_000_000)
    await app.page.locator("input[type=file][multiple]").set_input_files([big])
    await expect(app.page.get_by_text("big.txt")).to_be_visible()
    await app.run("hello")
