"""Failed sends and unreachable servers: services are really killed; only exact refusals are simulated."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Request, Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.marks import on_four
from tests.system.plane import Plane, running

pytestmark = pytest.mark.more

# The browser's own note of an answer or a connection that the test brings about.
UNREACHABLE = r"net::ERR_|Failed to load resource: the server responded with a status of 50"
REFUSAL = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "refused by a test"}}


@on_four
async def test_a_gateway_killed_in_mid_stream_loses_nothing(app: App, plane: Plane, gate: Gate) -> None:
    """B11, C3, C5: a banner is shown while the gateway is away; the text is complete, each word once."""
    app.seen.allow(UNREACHABLE)
    await app.open()
    await app.send(str(gate))
    await app.counted(5)
    await plane.kill("gateway")
    await expect(app.banner("lost")).to_be_visible()
    kept = len(await app.numbers())
    await plane.start("gateway")
    await expect(app.banner("lost")).to_have_count(0)
    assert len(await app.numbers()) >= kept
    await app.counted_up()
    gate.open()
    await app.answered(2)
    await app.counted(kept)
    await app.unique()
    await expect(app.alerts).to_have_count(0)


@on_four
async def test_a_cursor_that_the_log_does_not_have_falls_back_to_a_snapshot(app: App, plane: Plane, gate: Gate) -> None:
    """B13, C4: after a lost connection the log is another one; repeated events are shown once."""
    places: list[str] = []

    async def elsewhere(route: Route, request: Request) -> None:
        headers = dict(request.headers)
        if "last-event-id" in headers:
            places.append(headers["last-event-id"])
            headers["last-event-id"] = "gone-3"
        await route.continue_(headers=headers)

    app.seen.allow(UNREACHABLE)
    await app.open()
    await app.page.route(f"{app.url}/agents/**", elsewhere)
    await app.send(str(gate))
    await app.counted(5)
    await plane.kill("gateway")
    await plane.start("gateway")
    kept = len(await until(app.counted_up, lambda _: bool(places)))
    gate.open()
    await app.answered(2)
    await app.counted(kept)
    await app.unique()


@on_four
async def test_a_message_fails_while_the_executor_is_down_and_retry_sends_it(app: App, plane: Plane) -> None:
    """B12, C10: the error is on the message. Retry works once the service is back, with the same id and key."""
    app.seen.allow(UNREACHABLE)
    await app.open()
    await app.run("first")
    await plane.kill("executor")
    try:
        await app.box.fill("second")
        await app.box.press("Enter")
        await expect(app.alerts.first).to_be_visible()
    finally:
        await plane.start("executor")
    await _again(app, "second")
    await app.shows("first", "first", "second", "second")
    _same_send(app, 2)


@pytest_asyncio.fixture(loop_scope="session")
async def mortal(tmp_path: Path) -> AsyncIterator[Plane]:
    """A `taskplane dev` that may be killed, with short leases."""
    async with running("one", tmp_path) as started:
        yield started


@pytest.mark.parametrize("plane", ["mortal"], indirect=True)
async def test_a_plane_killed_in_mid_run_runs_the_task_again(app: App, plane: Plane) -> None:
    """B11, C9, W4: all processes are killed; the output of the second run is shown once."""
    app.seen.allow(UNREACHABLE)
    await app.open()
    await app.send("rerun 12")
    await app.running()
    await app.in_session()
    await plane.kill("dev")
    await expect(app.banner("lost")).to_be_visible()
    await plane.start()
    await expect(app.banner("lost")).to_have_count(0)
    await app.idle()
    await app.has_states("completed")
    await app.show("Artifacts")
    await expect(app.details.get_by_text("Chunks").first).to_be_visible()
    await app.shows("rerun 12")


@pytest.mark.parametrize("how", ["server error", "refusal", "network"])
async def test_retry_sends_a_refused_message_again(app: App, how: str) -> None:
    """B23, C10: the text is back or marked; the retry has the same message id and key."""
    app.seen.allow(r"net::ERR_FAILED|status of 500")
    away = True

    async def refuse(route: Route, request: Request) -> None:
        if not away or "SendMessage" not in (request.post_data or ""):
            return await route.continue_()
        if how == "server error":
            return await route.fulfill(status=500, body="not JSON at all")
        return await (route.fulfill(json=REFUSAL) if how == "refusal" else route.abort())

    await app.page.route(f"{app.url}/**", refuse)
    await app.open()
    await app.box.fill("hello again")
    await app.box.press("Enter")
    await expect(app.alerts.first).to_be_visible()
    away = False
    await _again(app, "hello again")
    await app.shows("hello again", "hello again")
    _same_send(app, 1)
    await expect(app.alerts).to_have_count(0)


async def test_a_message_sent_offline_is_sent_once_when_online(app: App) -> None:
    """B24, C10: with a banner while offline."""
    app.seen.allow(r"net::ERR_INTERNET_DISCONNECTED")
    await app.open()
    await app.run("first")
    await app.page.context.set_offline(True)
    await expect(app.banner("offline")).to_be_visible()
    await app.box.fill("second")
    await app.box.press("Enter")
    await until(app.texts, lambda texts: texts[-1].startswith("second"))
    await app.page.context.set_offline(False)
    await expect(app.banner("offline")).to_have_count(0)
    await app.answered(4)
    await app.shows("first", "first", "second", "second")
    await app.unique()
    await app.reload()
    await app.shows("first", "first", "second", "second")


async def test_a_new_conversation_has_no_lost_banner_after_the_network_returns(app: App) -> None:
    """B24: a new conversation reads nothing from the server that could clear the banner."""
    app.seen.allow(r"net::ERR_INTERNET_DISCONNECTED")
    await app.open()
    await app.page.context.set_offline(True)
    await expect(app.banner("offline")).to_be_visible()
    await app.page.context.set_offline(False)
    await expect(app.banner("offline")).to_have_count(0)
    await expect(app.banner("lost")).to_have_count(0)


async def test_a_session_is_followed_again_after_a_refusal(app: App, http: httpx.AsyncClient) -> None:
    """B9, C10: messages of another client are shown, without *Retry*."""
    app.seen.allow("status of 403")
    await app.open()
    await app.run("first")
    session = app.session
    refused = {"error": "no", "code": "FORBIDDEN"}
    await app.page.route("**/watch", lambda route: route.fulfill(status=403, json=refused), times=1)
    await app.page.clock.install()
    await app.page.reload()
    # A refused stream does not replace the messages that could be read.
    await app.shows("first", "first")
    # Beyond the pause after a stream.
    await app.page.clock.fast_forward(10_000)
    await app.send_from_elsewhere(http, session, "second")
    await app.shows("first", "first", "second", "second")


async def test_a_failed_read_does_not_show_a_live_stream_as_lost(app: App) -> None:
    """B24: a rewind reads the session again, once."""
    app.seen.allow("status of 503")
    await app.open()
    await app.run("A")
    await app.run("B")
    reads = 0

    async def fail(route: Route) -> None:
        nonlocal reads
        reads += 1
        await (route.fulfill(status=503, json={}) if reads == 2 else route.continue_())

    await app.page.route(f"**/api/sessions/{app.session}?limit=1", fail)
    async with app.page.expect_response(lambda response: response.status == 503):
        await app.rewind(2)
    await app.shows("A", "A")
    await app.page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 50))")
    await expect(app.banner("lost")).to_have_count(0)


async def _again(app: App, text: str) -> None:
    """Sends the failed message again: by its button, or from the box if the text came back."""
    retry = app.button("Retry")
    if await retry.count():
        await retry.first.click()
    else:
        await expect(app.box).to_have_value(text)
        await app.box.press("Enter")
    await until(app.texts, lambda texts: texts[-2:] == [text, text])


def _same_send(app: App, of: int) -> None:
    """Fails unless the sends from number `of` on have one message id and one key."""
    sends: list[Any] = app.seen.calls("SendMessage")[of - 1 :]
    assert len(sends) > 1
    assert len({send.message["messageId"] for send in sends}) == 1
    assert len({send.headers["idempotency-key"] for send in sends}) == 1
