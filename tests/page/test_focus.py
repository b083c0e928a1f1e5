"""The focus: it moves to a near element when its element disappears, and covered elements do not get it."""

import re
from collections.abc import Awaitable, Callable

import httpx
import pytest
from playwright.async_api import ViewportSize, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.views import BETWEEN, NARROW
from tests.system.wire import result, send, text_message

pytestmark = pytest.mark.more

WITHIN = "selector => !!document.activeElement.closest(selector)"
COVERED = """() => {
    const one = document.activeElement;
    return one.closest("body *") && !one.closest(".details") ? one.outerHTML.slice(0, 200) : null;
}"""
SCROLLED = "one => [Math.round(one.scrollTop), one.scrollHeight - one.clientHeight]"


async def _within(app: App, selector: str) -> bool:
    """Whether the focus is within this element; `body` itself is within nothing."""
    found: bool = await app.page.evaluate(WITHIN, selector)
    return found


async def test_actions_in_the_panel_keep_the_focus_in_the_panel(app: App, gate: Gate) -> None:
    """B31: a task that was canceled, and an event that was closed; its row then has the focus."""
    await app.open()
    await app.send(str(gate))
    await app.counted(3)
    details = await app.show("Tasks")
    await details.locator("li[data-task-id] button").last.press("Enter")
    await details.get_by_role("button", name="Cancel task").press("Enter")
    await app.has_states("canceled")
    await expect(details.get_by_role("button", name="Cancel task")).to_have_count(0)
    assert await _within(app, ".details .opened button")
    await app.show("Events")
    row = details.locator(".records button").last
    await row.press("Enter")
    await details.get_by_role("button", name="Close event").press("Enter")
    await expect(details.locator(".record")).to_have_count(0)
    assert await _within(app, ".records li")
    await app.page.keyboard.press("Escape")
    await expect(app.details).to_have_count(0)
    assert await _within(app, "main")


async def test_the_end_of_a_task_moves_the_focus_from_stop_to_the_box(app: App, gate: Gate) -> None:
    """B31: the next key is text and no shortcut."""
    await app.open()
    await app.send(str(gate))
    await app.counted(3)
    await app.button("Stop").focus()
    gate.open()
    await app.idle()
    await expect(app.box).to_be_focused()
    await app.page.keyboard.type("t")
    await expect(app.box).to_have_value("t")
    await expect(app.details).to_have_count(0)


async def test_a_click_on_the_page_keeps_the_focus_away_from_the_box(app: App, gate: Gate) -> None:
    """B31: also from other elements, when the button with the focus disappears."""
    await app.open()
    await app.send(str(gate))
    await app.counted(3)
    await app.button("Stop").focus()
    await app.sessions.locator(".brand").click()
    gate.open()
    await app.idle()
    assert await _within(app, "body")
    assert not await _within(app, "body *")


async def test_a_fading_toast_leaves_the_focus_in_the_box(app: App) -> None:
    """B31: also if its Undo button had the focus."""
    await app.page.clock.install()
    await app.open()
    await app.run("hello")
    await app.new_chat()
    await app.row("hello").press("Delete")
    undo = app.button("Undo")
    await undo.focus()
    await app.page.clock.run_for(11_000)
    await expect(undo).to_have_count(0)
    await expect(app.box).to_be_focused()


@pytest.mark.parametrize("size", [NARROW, BETWEEN])
async def test_elements_covered_by_the_panel_do_not_get_the_focus(
    another: Callable[..., Awaitable[App]], size: ViewportSize
) -> None:
    """B31: from the first opening on, before its script is loaded. Afterwards the button that opened it has the
    focus."""
    app = await another(viewport=size)
    await app.open()
    await app.run("hello")
    tasks = app.button("Tasks")
    for _ in range(2):
        await tasks.press("Enter")
        await expect(app.details).to_be_visible()
        await until(lambda: _within(app, ".details"))
        for _ in range(12):
            await app.page.keyboard.press("Tab")
            # One call: behind the last element the focus leaves the page, and may return at any moment.
            assert await app.page.evaluate(COVERED) is None
        await app.page.keyboard.press("Escape")
        await expect(app.details).to_have_count(0)
        await expect(tasks).to_be_focused()


async def test_the_focus_goes_to_the_open_part_of_the_panel(another: Callable[..., Awaitable[App]]) -> None:
    """B31: not to the first part."""
    app = await another(viewport=NARROW)
    await app.open()
    await app.run("hello")
    tab = app.page.get_by_role("tab", name="Artifacts")
    # Until its script is loaded, the focus waits at the panel.
    await app.button("Artifacts").press("Enter")
    await expect(tab).to_be_visible()
    await app.page.keyboard.press("Escape")
    await expect(tab).to_have_count(0)
    await app.button("Artifacts").press("Enter")
    await expect(tab).to_be_focused()


async def test_the_focus_returns_from_the_sessions(another: Callable[..., Awaitable[App]]) -> None:
    """B31: by Escape and by a choice, if they lie above the conversation; a reply from the panel goes to the box."""
    app = await another(viewport=NARROW)
    await app.open()
    await app.run("hello")
    menu = app.button("Show sessions")
    await menu.press("Enter")
    await until(lambda: _within(app, ".sidebar"))
    await app.page.keyboard.press("Escape")
    await expect(app.page.locator("main")).not_to_have_attribute("inert", "")
    await expect(menu).to_be_focused()
    await menu.press("Enter")
    await app.row("hello").press("Enter")
    await expect(app.page.locator("main")).not_to_have_attribute("inert", "")
    await until(lambda: _within(app, "main *"))
    await app.show("Tasks")
    await app.details.locator("li[data-task-id] button").first.press("Enter")
    await app.details.get_by_role("button", name="Reply to this task").press("Enter")
    await expect(app.box).to_be_focused()


async def test_another_page_keeps_the_focus_in_main(app: App) -> None:
    """B31: the link to the agent disappears with the conversation."""
    await app.open()
    await app.run("hello")
    await app.page.locator("main header").get_by_role("link", name=re.compile("^Agent: ")).press("Enter")
    await expect(app.button("Start a chat")).to_be_visible()
    assert await _within(app, "main")


async def test_filters_keep_the_focus(app: App, http: httpx.AsyncClient, user: str) -> None:
    """B31: in the filled field, and in the form after it was cleared."""
    await send(http, "echo hello")
    await app.page.goto(f"{app.url}/ui/ops?view=tasks")
    owner = app.page.get_by_label("Owner")
    await owner.fill(user)
    await owner.press("Enter")
    clear = app.page.get_by_role("link", name="Clear filters")
    await expect(clear).to_be_visible()
    assert await _within(app, ".ops-filters label:has([name=owner]) *")
    await clear.press("Enter")
    await expect(clear).to_have_count(0)
    assert await _within(app, ".ops-filters *")


async def test_actions_on_a_task_keep_the_focus_near_them(app: App, http: httpx.AsyncClient, gate: Gate) -> None:
    """B31: loading the whole log, a cancel, a deletion, and a deletion by another operator meanwhile."""
    long = (await send(http, "flood 700"))["task"]["id"]
    await app.page.goto(f"{app.url}/ui/ops/tasks/{long}")
    earlier = app.button("Show earlier events")
    await earlier.press("Enter")
    await expect(earlier).to_have_count(0)
    assert await _within(app, ".ops-body")
    await app.page.locator(".records button").last.press("Enter")
    await app.button("Close event").press("Enter")
    await expect(app.page.locator(".record")).to_have_count(0)
    assert await _within(app, ".records li")
    message = {"message": text_message(str(gate)), "configuration": {"returnImmediately": True}}
    task = (await result(http, "SendMessage", message))["task"]["id"]
    await app.page.goto(f"{app.url}/ui/ops/tasks/{task}")
    await app.button("Cancel task").press("Enter")
    await app.button("Cancel it").press("Enter")
    await expect(app.page.get_by_text("Canceled after")).to_be_visible()
    await expect(app.button("Cancel task")).to_have_count(0)
    assert await _within(app, ".ops-body")
    await app.button("Delete task").press("Enter")
    await app.button("Delete it").press("Enter")
    await expect(app.page.get_by_text("The task was deleted")).to_be_visible()
    assert await _within(app, ".ops-body")
    app.seen.allow("status of 404")
    await app.page.goto(f"{app.url}/ui/ops/tasks/{long}")
    await app.button("Delete task").press("Enter")
    await expect(app.button("Keep it")).to_be_focused()
    (await http.delete(f"/api/ops/tasks/{long}")).raise_for_status()
    await expect(app.page.get_by_text("This task is not here")).to_be_visible()
    assert await _within(app, "main")


async def test_the_end_key_scrolls_the_element_with_the_focus(
    another: Callable[..., Awaitable[App]], http: httpx.AsyncClient
) -> None:
    """B31: Operations, the inspector's list beside a conversation that is scrolled up, and that conversation."""
    app = await another(viewport={"width": 1280, "height": 420})
    await app.open()
    await app.run("flood 300")
    await app.log.press("Home")
    end = app.page.locator(".to-end")
    await expect(end).to_be_visible()
    await app.show("Events")
    records = app.page.locator(".records")
    await records.locator("button").last.focus()
    await records.evaluate("one => one.scrollTop = 0")
    await app.page.keyboard.press("End")
    await until(lambda: records.evaluate(SCROLLED), lambda at: at[0] > 0 and at[0] >= at[1] - 1)
    await expect(end).to_be_visible()
    await app.log.press("End")
    await expect(end).to_have_count(0)
    await send(http, "fail")
    await app.page.goto(f"{app.url}/ui/ops")
    await app.page.get_by_role("link", name=re.compile("Failed: ")).first.focus()
    body = app.page.locator(".ops-body")
    await app.page.keyboard.press("End")
    await until(lambda: body.evaluate(SCROLLED), lambda at: at[0] > 0 and at[0] >= at[1] - 1)
