"""Several sessions, several tabs and several writers."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import httpx
import pytest
from playwright.async_api import expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.marks import on_both_if_thorough
from tests.page.views import NARROW
from tests.system.wire import result, send, text_message

pytestmark = pytest.mark.more

TABS = 7


async def test_a_send_after_a_message_of_another_client_is_refused_and_nothing_is_lost(
    app: App, http: httpx.AsyncClient
) -> None:
    """B10, R9: the page loads the new messages, shows the refusal and keeps the draft."""
    app.seen.allow("status of 409")
    await app.open()
    await app.run("first")
    session = await app.in_session()
    async with app.page.expect_response("**/watch"):
        await app.reload()
    await app.shows("first", "first")
    held = await app.hold("too late")
    await app.box.fill("too late")
    async with app.page.expect_request(lambda request: "too late" in (request.post_data or "")):
        await app.box.press("Enter")
    await send(http, "faster", contextId=session)
    held.set()
    await until(app.texts, lambda texts: texts[:4] == ["first", "first", "faster", "faster"])
    await expect(
        app.page.get_by_role("alert").or_(app.page.get_by_role("status")).filter(has_text="changed").first
    ).to_be_visible()
    found = (await http.get(f"/api/sessions/{session}/messages")).json()["data"]["messages"]
    assert len(found) == 4
    retry = app.button("Retry")
    if await retry.count():
        await retry.first.click()
    else:
        await expect(app.box).to_have_value("too late")
        await app.box.press("Enter")
    await app.answered(6)
    await app.shows("first", "first", "faster", "faster", "too late", "too late")


async def test_of_three_tasks_only_the_running_one_is_subscribed_to(app: App, gate: Gate) -> None:
    """B18, M1, M5: two completed and one at work, also after leaving and returning."""
    await app.open()
    await app.run("one")
    await app.run("two")
    await app.send(str(gate))
    await app.counted(3)
    task = (await app.messages())[-1].task
    await app.has_states("completed", "completed", "working")
    await app.new_chat()
    await app.run("elsewhere")
    before = len(app.seen.calls("SubscribeToTask"))
    await app.row("one").click()
    await app.counted_up()
    await app.has_states("completed", "completed", "working")
    after = app.seen.calls("SubscribeToTask")[before:]
    assert {call.params["id"] for call in after} == {task}
    await app.stop()
    await app.has_states("completed", "completed", "canceled")


@on_both_if_thorough
async def test_seven_streaming_tabs_leave_connections_for_requests(
    app: App, another: Callable[..., Awaitable[App]], http: httpx.AsyncClient
) -> None:
    """B29: while seven tabs of one browser follow seven sessions, the list of sessions is still answered."""
    sessions = [(await _begun(http)) for _ in range(TABS)]
    tabs = [app, *[await another(beside=app) for _ in range(TABS - 1)]]
    for tab, session in zip(tabs, sessions, strict=True):
        await tab.open_session(session)
    await tabs[-1].page.evaluate("fetch(new URL('/api/sessions?limit=1', location.href)).then((one) => one.json())")
    await asyncio.gather(*(until(tab.numbers, lambda numbers: len(numbers) > 2) for tab in tabs))
    answered: float = await app.page.evaluate(
        """async () => {
            const begun = performance.now();
            await (await fetch(new URL("/api/sessions?limit=5", location.href))).json();
            return performance.now() - begun;
        }"""
    )
    assert answered < 2000
    for tab in tabs:
        await tab.stop()
    for tab in tabs:
        await tab.idle()
        await tab.unique()


async def _begun(http: httpx.AsyncClient) -> str:
    """A session with a running task."""
    params = {"message": text_message("count 3000 50"), "configuration": {"returnImmediately": True}}
    task = (await result(http, "SendMessage", params))["task"]
    return str(task["contextId"])


async def test_the_list_follows_sessions_that_are_not_shown(app: App, gate: Gate) -> None:
    """M5: a task that ends while another session is shown is not listed as working."""
    await app.open()
    await app.send(str(gate))
    await app.running()
    dot = app.page.locator(f'[data-session-id="{await app.in_session()}"] .state-dot')
    await app.new_chat()
    await expect(dot).to_have_attribute("data-state", "working")
    gate.open()
    await expect(dot).to_have_attribute("data-state", "completed")


async def test_the_events_panel_shows_the_events_of_the_shown_session(app: App) -> None:
    """M8: the panel stays open when another session is chosen."""
    await app.open()
    await app.run("one")
    first = app.session
    await app.show("Events")
    await expect(app.details.get_by_text("SendMessage one")).to_be_visible()
    await app.new_chat()
    await app.run("two")
    await expect(app.details.get_by_text("SendMessage two")).to_be_visible()
    await expect(app.details.get_by_text("SendMessage one")).to_have_count(0)
    await expect(app.details.get_by_text(re.compile(r"^\d+ events$"))).to_be_visible()
    await app.page.locator(f'[data-session-id="{first}"] a').click()
    await app.shows("one", "one")
    await expect(app.details.get_by_text("SendMessage one")).to_be_visible()
    await expect(app.details.get_by_text("SendMessage two")).to_have_count(0)


async def test_a_tap_at_the_end_of_a_row_opens_the_session(app: App, another: Callable[..., Awaitable[App]]) -> None:
    """S1: on a touch screen, hidden buttons of a row cannot be touched."""
    await app.open()
    for text in ("one", "two"):
        await app.new_chat()
        await app.run(text)
    narrow = await another(viewport=NARROW, has_touch=True, is_mobile=True)
    await narrow.open_session(app.session)
    await narrow.button("Show sessions").tap()
    row = narrow.page.locator(".session", has_text="one")
    box = await row.bounding_box()
    assert box
    await row.tap(position={"x": box["width"] - 12, "y": box["height"] / 2})
    await narrow.shows("one", "one")
