"""The sessions in the list: renamed, deleted, and gone."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime

import httpx
import pytest
from playwright.async_api import Route, expect
from tests.page.app import App, until

FAILED = r"net::ERR_FAILED"
GONE = "status of 404"


async def _rename(app: App, title: str, to: str) -> None:
    await app.row(title).press("F2")
    field = app.page.get_by_label("Title of the session")
    await field.fill(to)
    await field.press("Enter")


async def test_a_renamed_session_has_its_new_title_everywhere(app: App, another: Callable[..., Awaitable[App]]) -> None:
    """B33: in the list, above the conversation and in the title of the tab, here and in other tabs."""
    await app.open()
    await app.run("first")
    beside = await (await another(beside=app)).open_session(app.session)
    await _rename(app, "first", "Invoices")
    for tab in (app, beside):
        await expect(tab.row("Invoices")).to_be_visible()
        await expect(tab.page.get_by_role("heading", name="Invoices")).to_be_visible()
        await expect(tab.page).to_have_title("Invoices · taskplane")


async def test_a_refused_title_stays_in_its_field(app: App) -> None:
    """B33: the toast has the error, and Enter sends the title again."""
    app.seen.allow(FAILED)
    await app.open()
    await app.run("first")

    async def refuse(route: Route) -> None:
        await (route.abort() if route.request.method == "PATCH" else route.continue_())

    may_read = asyncio.Event()

    async def read_late(route: Route) -> None:
        await may_read.wait()
        await route.continue_()

    await app.page.route(f"{app.url}/api/sessions/*", refuse)
    await app.page.route(f"{app.url}/api/sessions?*", read_late)
    await _rename(app, "first", "Invoices")
    await expect(app.alerts.first).to_contain_text("Rename: ")
    field = app.page.get_by_label("Title of the session")
    await expect(field).to_have_value("Invoices")
    await app.page.unroute(f"{app.url}/api/sessions/*", refuse)
    async with app.page.expect_response(lambda response: response.request.method == "PATCH"):
        await field.press("Enter")
    may_read.set()
    await expect(app.row("Invoices")).to_be_visible()


async def test_a_session_that_is_opened_again_is_not_deleted(app: App, http: httpx.AsyncClient) -> None:
    """S4: within the time of Undo, Back means Undo."""
    await app.open()
    await app.run("first")
    session = app.session
    await app.row("first").press("Delete")
    await expect(app.row("first")).to_have_count(0)
    await app.page.go_back()
    await app.shows("first", "first")
    await expect(app.row("first")).to_be_visible()
    await app.row("first").press("Delete")
    await app.page.get_by_role("status").get_by_role("button", name="Undo").first.click()
    await app.shows("first", "first")
    assert (await http.get(f"/api/sessions/{session}")).status_code == 200


async def test_a_session_is_deleted_when_the_page_is_left(another: Callable[..., Awaitable[App]]) -> None:
    """S4: the page has shown the session as deleted."""
    # Requests sent while the page is left do not have the headers that a test adds.
    app = await (await another(extra_http_headers={})).open()
    await app.run("first")
    session = app.session
    await app.row("first").press("Delete")
    await expect(app.row("first")).to_have_count(0)
    await app.page.goto("about:blank")
    async with httpx.AsyncClient(base_url=app.url) as http:
        await until(lambda: http.get(f"/api/sessions/{session}"), lambda answer: answer.status_code == 404, 5)


async def test_the_list_of_sessions_is_read_again_after_a_failure(app: App) -> None:
    """S4: the error of a proxy is shown with a suggestion."""
    app.seen.allow("status of 502")
    await app.open()
    await app.run("first")

    async def refuse(route: Route) -> None:
        await route.fulfill(status=502, body="<h1>Bad gateway</h1>")

    await app.page.clock.install()
    await app.page.route(f"{app.url}/api/sessions?*", refuse)
    await app.reload()
    await expect(app.sessions.get_by_role("alert")).to_contain_text("Try again in a moment")
    await app.page.unroute_all(behavior="wait")
    await app.page.clock.run_for(6_000)
    await expect(app.row("first")).to_be_visible()
    await expect(app.sessions.get_by_role("alert")).to_have_count(0)


async def test_deleting_a_session_keeps_the_focus_in_the_list(app: App) -> None:
    """B31: on the session beside it."""
    await app.open()
    for title in ("first", "second", "third"):
        await app.new_chat()
        await app.run(title)
    await app.row("second").press("Delete")
    await expect(app.row("second")).to_have_count(0)
    assert await app.page.evaluate("!!document.activeElement.closest('[data-session-id]')")


async def test_a_session_used_in_another_tab_is_not_deleted(
    app: App, another: Callable[..., Awaitable[App]], http: httpx.AsyncClient
) -> None:
    """S4: its new messages are not lost."""
    await app.page.clock.install()
    await app.open()
    await app.run("first")
    beside = await (await another(beside=app)).open_session(app.session)
    await app.row("first").press("Delete")
    await expect(app.row("first")).to_have_count(0)
    await beside.run("second")
    await expect(app.row("first")).to_be_visible()
    await app.page.clock.run_for(11_000)
    await beside.run("third")
    assert (await http.get(f"/api/sessions/{beside.session}")).status_code == 200


async def test_the_draft_of_a_deleted_session_is_kept(app: App, http: httpx.AsyncClient) -> None:
    """R11: as the draft of a new conversation, before the text that was there."""
    app.seen.allow(GONE)
    await app.open()
    await app.run("first")
    await app.new_chat()
    await app.box.fill("begun before")
    await app.row("first").click()
    await app.box.fill("half written")
    await http.delete(f"/api/sessions/{app.session}")
    await expect(app.page.get_by_role("heading", name="This session is not here")).to_be_visible()
    await app.page.get_by_role("main").get_by_role("button", name="New chat").click()
    await expect(app.box).to_have_value("half written\n\nbegun before")


async def test_the_time_until_the_first_output_is_that_of_the_server(app: App, http: httpx.AsyncClient) -> None:
    """From the creation of the task to the first text in its log, in a tab that did not receive the text live."""
    await app.open()
    await app.run("count 3")
    (task,) = (await http.get(f"/api/sessions/{app.session}/task-infos")).json()["data"]
    log = await http.get(f"/api/tasks/{task['taskId']}/events")
    events = [json.loads(line.removeprefix("data: ")) for line in log.text.splitlines() if line.startswith("data: ")]
    said = next(
        event for event in events if event["kind"] == "status" and "message" in event["event"]["statusUpdate"]["status"]
    )
    took = datetime.fromisoformat(said["time"]) - datetime.fromisoformat(task["createdAt"])
    await app.reload()
    await app.show("Tasks")
    await app.details.locator(".entry").click()
    figure = app.details.locator(".opened .facts > div", has_text="First output after").locator("dd")
    number, unit = (await figure.inner_text()).split()
    shown = float(number) / {"ms": 1000, "sec": 1}[unit]
    assert shown == pytest.approx(took.total_seconds(), abs=0.06)


async def test_the_usage_of_an_older_task_is_shown_after_a_reload(app: App) -> None:
    """The usage that its agent reported, when the task is opened in the panel."""
    await app.open()
    await app.run("usage 7")
    await app.run("hello")
    await app.reload()
    await app.show("Tasks")
    await app.details.locator(".entry").first.click()
    await expect(app.details.locator(".opened")).to_contain_text("input tokens7")
