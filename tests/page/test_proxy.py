"""The page below a path of a proxy."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio
from playwright.async_api import expect
from tests.page.app import App
from tests.page.proxy import below
from tests.system.plane import Plane


@pytest_asyncio.fixture(loop_scope="session")
async def at(plane: Plane) -> AsyncIterator[str]:
    """The address of the plane behind a proxy."""
    async with below("/team/plane", plane.url) as url:
        yield url


async def test_below_a_path_of_a_proxy_everything_works_and_nothing_is_asked_for_outside(
    at: str, another: Callable[..., Awaitable[App]]
) -> None:
    """Files, calls, streams and links are relative to the page: in a new chat, in a session, after a reload there."""
    # The proxy comes first, so that it is there for as long as the page.
    found = await another()
    app = App(found.page, at, found.seen)
    asked: list[str] = []
    app.page.on("request", lambda request: asked.append(request.url))
    await app.open("/")
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
