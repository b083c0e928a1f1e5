"""The history of the browser: Back closes a panel over the conversation before it leaves the conversation."""

from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.page.app import App, until
from tests.page.views import BETWEEN, DESKTOP, NARROW

pytestmark = pytest.mark.more

# Goes forward, and returns when the page has come back from there.
FORWARD = """new Promise((done) => {
    addEventListener("popstate", () => addEventListener("popstate", done, { once: true }), { once: true });
    history.forward();
})"""


@pytest_asyncio.fixture(loop_scope="session")
async def narrow(another: Callable[..., Awaitable[App]]) -> App:
    """A tab on a narrow screen, in a session that was opened after the page of an agent."""
    app = await another(viewport=NARROW)
    await app.page.goto(f"{app.url}/ui/agents/gated")
    await app.button("Start a chat").click()
    await app.run("hello")
    return app


async def _length(app: App) -> int:
    return int(await app.page.evaluate("history.length"))


async def _shows(app: App, *, details: bool = False, sessions: bool = False) -> None:
    """Waits until exactly these panels cover the conversation."""
    await expect(app.details).to_have_count(int(details))
    main = expect(app.page.locator("main"))
    await (main.to_have_attribute("inert", "") if details or sessions else main.not_to_have_attribute("inert", ""))
    await until(lambda: app.page.evaluate("!!history.state"), lambda above: above == (details or sessions))


async def test_back_closes_the_panel_and_then_leaves_the_session(narrow: App) -> None:
    """B33: Forward does not lead to an entry without a panel."""
    session = await narrow.in_session()
    await narrow.show("Tasks")
    await narrow.page.get_by_role("tab", name="Artifacts").click()
    await _shows(narrow, details=True)
    await narrow.page.go_back()
    await _shows(narrow)
    assert narrow.session == session
    await narrow.page.evaluate(FORWARD)
    await _shows(narrow)
    assert narrow.session == session
    await narrow.page.go_back()
    await expect(narrow.button("Start a chat")).to_be_visible()


async def test_back_closes_the_sessions_and_then_leaves_the_session(narrow: App) -> None:
    """B33: one Back leaves, whether Back, their button, Escape or a click beside them closed the sessions."""
    session = await narrow.in_session()
    menu = narrow.button("Show sessions")
    await menu.click()
    await _shows(narrow, sessions=True)
    await narrow.page.go_back()
    await _shows(narrow)
    assert narrow.session == session
    closings: list[Callable[[], Awaitable[None]]] = [
        lambda: narrow.sessions.get_by_role("button", name="Close").click(),
        lambda: narrow.page.keyboard.press("Escape"),
        lambda: narrow.page.locator(".scrim").click(position={"x": 350, "y": 400}),
    ]
    for close in closings:
        await menu.click()
        await _shows(narrow, sessions=True)
        await close()
        await _shows(narrow)
    await narrow.show("Tasks")
    await narrow.details.get_by_role("button", name="Close").click()
    await _shows(narrow)
    await narrow.page.go_back()
    await expect(narrow.button("Start a chat")).to_be_visible()


async def test_a_choice_among_the_sessions_is_one_entry_of_the_history(narrow: App) -> None:
    """B33: also the choice of the open session, and a new chat in a new chat."""
    session = await narrow.in_session()
    await narrow.button("Show sessions").click()
    await narrow.new_chat()
    await _shows(narrow)
    before = await _length(narrow)
    await narrow.button("Show sessions").click()
    await _shows(narrow, sessions=True)
    await narrow.new_chat()
    await _shows(narrow)
    await narrow.button("Show sessions").click()
    await narrow.row("hello").click()
    await _shows(narrow)
    assert await narrow.in_session() == session
    assert await _length(narrow) == before + 1
    await narrow.button("Show sessions").click()
    await narrow.row("hello").click()
    await _shows(narrow)
    await narrow.page.go_back()
    await expect(narrow.articles).to_have_count(0)
    await narrow.page.go_back()
    await narrow.shows("hello", "hello")
    assert narrow.session == session


async def test_showing_the_messages_of_a_task_leaves_no_entry(narrow: App) -> None:
    """B33: the panel closes, the message is marked, and Back leaves the session."""
    await narrow.show("Tasks")
    await narrow.details.locator("li[data-task-id] button").first.click()
    await narrow.details.get_by_role("button", name="Show messages").click()
    await _shows(narrow)
    await expect(narrow.page.locator("[data-marked]")).to_be_visible()
    assert "message=" in narrow.page.url
    await narrow.page.go_back()
    await expect(narrow.button("Start a chat")).to_be_visible()


async def test_a_link_to_a_task_opens_the_panel_once(narrow: App) -> None:
    """B33: the panel closes by Back and stays closed. A reload with an open panel leaves no entry."""
    session = await narrow.in_session()
    task = (await narrow.messages())[-1].task
    await narrow.open_session(session, f"?task={task}")
    await _shows(narrow, details=True)
    await narrow.page.go_back()
    await _shows(narrow)
    assert narrow.session == session
    await narrow.open_session(session)
    await narrow.show("Tasks")
    await narrow.reload()
    await _shows(narrow)
    await narrow.page.go_back()
    await expect(narrow.page).to_have_url(f"{narrow.url}/ui/sessions/{session}?task={task}")


async def test_a_new_chat_from_below_a_panel_is_one_entry(another: Callable[..., Awaitable[App]]) -> None:
    """B33: by its key, in a window with room for the sessions and not for the panel."""
    app = await another(viewport=BETWEEN)
    await app.page.goto(f"{app.url}/ui/agents/gated")
    await app.button("Start a chat").click()
    await app.run("hello")
    session = await app.in_session()
    await app.show("Tasks")
    await _shows(app, details=True)
    await app.page.keyboard.press("n")
    await _shows(app)
    await app.run("again")
    await app.page.go_back()
    await app.shows("hello", "hello")
    assert app.session == session


async def test_a_panel_beside_the_conversation_makes_no_entry(another: Callable[..., Awaitable[App]]) -> None:
    """B33: until the window is too narrow for both."""
    app = await another(viewport=DESKTOP)
    await app.page.goto(f"{app.url}/ui/agents/gated")
    await app.button("Start a chat").click()
    await app.run("hello")
    before = await _length(app)
    for panel in ("Tasks", "Events"):
        await app.show(panel)
    await app.page.keyboard.press("Escape")
    await expect(app.details).to_have_count(0)
    await app.show("Tasks")
    assert await _length(app) == before
    await app.page.set_viewport_size(NARROW)
    await _shows(app, details=True)
    await app.page.set_viewport_size(DESKTOP)
    await until(lambda: app.page.evaluate("!history.state"))
    await expect(app.details).to_be_visible()
    await app.page.go_back()
    await expect(app.button("Start a chat")).to_be_visible()
