"""Addresses, other origins, and browsers with other or missing storage."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Request, Route, expect
from tests.page.app import App, until
from tests.page.browser import OTHER_HOST
from tests.system.plane import STEADY, Plane, running

pytestmark = pytest.mark.more

CHUNK_GONE = "status of 404|Failed to fetch dynamically|error loading dynamically"


@pytest.mark.parametrize(
    "path", ["/ui/sessions/never-was", "/ui/sessions/never-was?task=t&message=m", "/ui/sessions/%ff"]
)
async def test_a_link_to_a_missing_session_shows_an_explanation(app: App, path: str) -> None:
    """B33: with a button that begins a new chat."""
    app.seen.allow("status of 404")
    await app.page.goto(f"{app.url}{path}")
    await expect(app.page.get_by_text("This session is not here")).to_be_visible()
    await app.button("New chat").last.click()
    await app.run("hello")
    await app.shows("hello", "hello")


@pytest.mark.parametrize(
    "path", ["/ui/none", "/ui/sessions/a/b", "/ui/agents/a/b", "/ui/ops/none", "/ui/ops/tasks/t/x"]
)
async def test_an_unknown_address_shows_an_explanation(app: App, path: str) -> None:
    """B33: within the page, with a button that begins a new chat."""
    app.seen.allow("status of 404")
    await app.page.goto(f"{app.url}{path}")
    await expect(app.page.get_by_role("heading", name="There is no such page")).to_be_visible()
    await app.button("New chat").last.click()
    await expect(app.box).to_be_focused()


async def test_a_session_deleted_elsewhere_is_shown_as_missing(
    app: App, another: Callable[..., Awaitable[App]]
) -> None:
    """B33, S4: in an open tab, and at a link to the session."""
    app.seen.allow("status of 404")
    await app.open()
    await app.run("hello")
    session = await app.in_session()
    deleted = await app.page.request.delete(f"{app.url}/api/sessions/{session}")
    assert deleted.ok
    await expect(app.page.get_by_text("This session is not here")).to_be_visible()
    other = await another()
    other.seen.allow("status of 404")
    await other.page.goto(f"{other.url}/ui/sessions/{session}")
    await expect(other.page.get_by_text("This session is not here")).to_be_visible()


async def test_an_empty_list_of_sessions_explains_how_to_begin_one(app: App) -> None:
    """S1: the empty list of a new user is not an error, nor is a session without messages."""
    await app.open()
    await expect(app.page.get_by_text("No session yet")).to_be_visible()
    made = await app.page.request.post(f"{app.url}/api/sessions", data={"id": "bare", "agent_ref": "gated"})
    assert made.ok
    await app.open_session("bare")
    await app.run("hello")
    await expect(app.page.get_by_role("alert")).to_have_count(0)


async def test_links_lead_to_sessions_and_messages(app: App, another: Callable[..., Awaitable[App]]) -> None:
    """B33: a link to a message shows the message, marked."""
    await app.open()
    for text in ("A", "B"):
        await app.run(text)
    shown = await app.unique()
    other = await (await another()).open_session(app.session, f"?message={shown[2].id}")
    await other.shows("A", "A", "B", "B")
    await expect(other.page.locator("[data-marked]")).to_contain_text("B")


@pytest.mark.parametrize("query", ["?task=gone", "?message=gone"])
async def test_a_link_to_a_deleted_message_or_task_shows_a_notice(app: App, query: str) -> None:
    """B33: the notice is above the conversation of the session."""
    await app.open()
    await app.run("A")
    await app.open_session(app.session, query)
    await expect(app.banner("gone")).to_contain_text("deleted or rewound")
    await app.shows("A", "A")
    await app.open_session(app.session)
    await expect(app.banner("gone")).to_have_count(0)


@pytest_asyncio.fixture(loop_scope="session")
async def by_name(tmp_path: Path) -> AsyncIterator[Plane]:
    """A plane under a host name that is not a secure context."""
    async with running("one", tmp_path, {**STEADY, "TASKPLANE_GATEWAY_ALLOWED_HOSTS": OTHER_HOST}) as started:
        started.url = started.url.replace("127.0.0.1", OTHER_HOST)
        yield started


@pytest.mark.parametrize("plane", ["by_name"], indirect=True)
async def test_the_page_works_over_plain_http_on_another_host(app: App) -> None:
    """B35: without `crypto.randomUUID`, clipboard and locks, which only secure contexts have."""
    await app.open()
    assert await app.page.evaluate(
        "[isSecureContext, !!crypto.randomUUID, !!navigator.locks, !!navigator.clipboard]"
    ) == [
        False,
        False,
        False,
        False,
    ]
    await app.run("hello")
    await app.send("count 30 20")
    await app.answered(4)
    assert await app.counted(30) == list(range(1, 31))
    await app.article(0).hover()
    await app.article(0).get_by_role("button", name="Copy", exact=True).click()
    await app.rewind(2)
    await app.shows("hello", "hello")


async def test_a_page_older_than_its_server_shows_a_banner_and_keeps_the_draft(app: App) -> None:
    """B36: if a part that is loaded late is gone, the page shows a banner and does not go blank."""
    app.seen.allow(CHUNK_GONE)
    first: set[str] = set()

    async def gone(route: Route, request: Request) -> None:
        if request.url in first:
            return await route.continue_()
        return await route.fulfill(status=404, body="gone")

    await app.page.goto(f"{app.url}/ui")
    await expect(app.box).to_be_visible()
    first.update(request.url for request in app.seen.requests)
    await app.page.route("**/ui/assets/**", gone)
    await app.send("code")
    await app.box.fill("a draft")
    await expect(app.banner("update")).to_be_visible()
    await expect(app.article(1).locator("pre").first).to_be_visible()
    await app.page.unroute_all(behavior="wait")
    await app.banner("update").get_by_role("button", name="Reload").click()
    await expect(app.banner("update")).to_have_count(0)
    await expect(app.box).to_have_value("a draft")
    await expect(app.article(1).locator("pre .hljs-keyword").first).to_be_visible()


BLOCKED = """for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });"""
FULL = """Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };"""
CORRUPT = """for (const store of [localStorage, sessionStorage])
    for (const name of ["taskplane.draft.", "taskplane.key", "taskplane.theme", "taskplane.sessions", "taskplane"])
        store.setItem(name, "{ not JSON");"""
OLD = """localStorage.setItem("taskplane.sessions", JSON.stringify({ "old": { taskId: "t1", messages: null } }));
    localStorage.setItem("sessions", JSON.stringify([{ id: "old", taskId: "t1" }]));
    localStorage.setItem("taskplane.draft.", "a draft of before");"""


@pytest.mark.parametrize("stored", [BLOCKED, FULL, CORRUPT, OLD], ids=["blocked", "full", "corrupt", "old"])
async def test_the_page_works_with_any_content_of_the_storage(app: App, stored: str) -> None:
    """B38, M10: storage that is blocked, full, corrupt or of an older version."""
    await app.page.add_init_script(stored)
    await app.open()
    if stored == OLD:
        await expect(app.box).to_have_value("a draft of before")
    await app.run("hello")
    await app.shows("hello", "hello")
    await app.box.fill("a draft")
    await app.has_states("completed")
    await expect(app.box).to_have_value("a draft")
    await app.new_chat()
    await app.row("hello").click()
    await until(app.texts, lambda texts: texts == ["hello", "hello"])
