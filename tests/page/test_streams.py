"""Streams that break, begin late or are watched by several tabs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from playwright.async_api import Request, Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.marks import on_both
from tests.system.wire import result, send


@on_both
async def test_a_reload_during_a_stream_loses_and_repeats_nothing(app: App, gate: Gate) -> None:
    """B7, M5, C5: the text before the reload is shown, the rest arrives, each word once."""
    await app.open()
    await app.send(str(gate))
    await app.counted(5)
    await app.in_session()
    for _ in range(2):
        before = len(await app.numbers())
        await app.reload()
        await app.counted(before)
        await app.running()
    await app.counted_up()
    gate.open()
    await app.answered(2)
    await app.counted(8)
    await app.unique()
    assert await app.alerts.count() == 0


async def test_a_task_that_ends_before_the_subscription_is_shown_whole(app: App, http: httpx.AsyncClient) -> None:
    """B8, T10: with the final text, and no error."""

    async def late(route: Route, request: Request) -> None:
        if "SubscribeToTask" in (request.post_data or ""):
            await until(lambda: _state(http, app.session), lambda state: state == "completed")
        await route.continue_()

    await app.page.route(f"{app.url}/**", late)
    await app.open()
    await app.send("count 5 100")
    await app.answered(2)
    assert await app.counted(5) == [1, 2, 3, 4, 5]
    assert await app.alerts.count() == 0
    await app.has_states("completed")


@on_both
async def test_two_tabs_of_a_session_show_the_same(
    app: App, another: Callable[..., Awaitable[App]], gate: Gate
) -> None:
    """B9, M5: both stream; a message of one is shown in the other; equal texts, no id twice."""
    await app.open()
    await app.send(str(gate))
    session = await app.in_session()
    second = await (await another(beside=app)).open_session(session)
    await asyncio.gather(app.counted(10), second.counted(10))
    await asyncio.gather(app.counted_up(), second.counted_up())
    gate.open()
    await asyncio.gather(app.answered(2), second.answered(2))
    await second.run("hello from the second tab")
    await app.answered(4)
    assert await app.unique() == await second.unique()
    assert await app.texts() == await second.texts()


async def test_two_browsers_of_a_session_show_the_same(
    app: App, another: Callable[..., Awaitable[App]], http: httpx.AsyncClient
) -> None:
    """B9, M5: an idle tab shows the messages of another browser and another client."""
    await app.open()
    await app.run("first")
    session = await app.in_session()
    second = await (await another()).open_session(session)
    await second.shows("first", "first")
    await app.run("second")
    await second.shows("first", "first", "second", "second")
    await send(http, "third", contextId=session)
    for tab in (app, second):
        await tab.shows("first", "first", "second", "second", "third", "third")
    assert await app.unique() == await second.unique()


async def test_a_stream_ends_with_the_tab_and_the_task_continues(app: App, http: httpx.AsyncClient, gate: Gate) -> None:
    """B7: leaving cancels nothing, and after returning the whole answer is shown."""
    await app.open()
    await app.send(f"after {gate.file} count 20 1")
    session = await app.in_session()
    await app.new_chat()
    gate.open()
    await until(lambda: _state(http, session), lambda state: state == "completed")
    await app.sessions.locator(f"a[href*='{session}']").click()
    await app.answered(2)
    assert await app.counted(20) == list(range(1, 21))
    assert app.seen.calls("CancelTask") == []
    await expect(app.alerts).to_have_count(0)


async def _state(http: httpx.AsyncClient, session: str) -> str:
    """The state of the newest task of a session; empty while there is none."""
    if not session:
        return ""
    found: Any = (await http.get(f"/api/sessions/{session}/task-infos", params={"latest": "any"})).json()["data"]
    return str(found["state"]) if found else ""


async def cancel(http: httpx.AsyncClient, task: str) -> None:
    """Cancels as another client."""
    await result(http, "CancelTask", {"id": task})
