"""Long conversations and fast streams."""

import asyncio
import re
import time
from collections.abc import Callable

import httpx
import pytest
from playwright.async_api import Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.marks import on_both_if_thorough
from tests.page.scrolling import nodes, place, scroll, swept
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.more

MESSAGES = 10_000
OF_A_TASK = 100
MOST_NODES = 2_000
# Limits of the finished page; on a machine that is busy with other tests they mean nothing.
MOST_SECONDS, MOST_FRAME, MOST_TASK, MOST_LATENCY = 2.5, 70.0, 500.0, 200.0


async def long_session(http: httpx.AsyncClient, count: int) -> str:
    """A session of this number of messages, half of those of the agent with code: tasks of an external runtime."""
    session = f"long-{time.time_ns()}"
    made = await http.post("/api/sessions", json={"id": session, "name": "A long one", "agent_ref": "gated"})
    assert made.status_code < 300, made.text
    for first in range(0, count, OF_A_TASK):
        history = [
            {
                "kind": "message",
                "messageId": f"{session}-{index}",
                "contextId": session,
                "role": "agent" if index % 2 else "user",
                "parts": [{"kind": "text", "text": _text(index)}],
            }
            for index in range(first, min(count, first + OF_A_TASK))
        ]
        task = {"id": f"{session}-t{first}", "contextId": session, "kind": "task", "status": {"state": "completed"}}
        stored = await http.post("/api/tasks", json=task | {"history": history})
        assert stored.status_code < 300, stored.text
    return session


def _text(index: int) -> str:
    if index % 4 == 1:
        return (
            f"Message {index}:\n\n```python\ndef f{index}(x: int) -> int:\n    return x * {index}\n```\n\nand *more*."
        )
    return f"Message {index}: some words that take a line or two, depending on how wide the window is. " * (
        1 + index % 3
    )


@on_both_if_thorough
async def test_ten_thousand_messages_can_be_opened_read_and_added_to(
    app: App, http: httpx.AsyncClient, record_property: Callable[[str, object], None]
) -> None:
    """B25: the page has few elements at any length. Scrolling to the top and back, typing and sending work as usual."""
    session = await long_session(http, MESSAGES)
    begun = time.monotonic()
    await app.open_session(session)
    await until(app.texts, lambda texts: bool(texts) and texts[-1].startswith(f"Message {MESSAGES - 1}:"))
    visible = time.monotonic() - begun
    frames = [await swept(app, 60, -600), await swept(app, 60, 600)]
    assert await nodes(app) < MOST_NODES

    async def first() -> bool:
        await scroll(app, 0)
        return any(text.startswith("Message 0:") for text in await app.texts())

    if THOROUGH:
        await until(first, timeout=60)
        assert await nodes(app) < MOST_NODES
        frames.append(await swept(app, 60, 600))
    await scroll(app, -1)
    await app.box.press_sequentially("still ")
    begun = time.monotonic()
    await app.box.press_sequentially("here")
    typing = (time.monotonic() - begun) / 4 * 1000
    await app.box.press("Enter")
    await until(app.texts, lambda texts: bool(texts) and texts[-1] == "still here" == texts[-2])
    assert (await place(app))[1] < 64
    figures = {
        "visible_s": round(visible, 2),
        "frame_p50_ms": max(one.p50 for one in frames),
        "frame_p95_ms": max(one.p95 for one in frames),
        "longest_task_ms": max(one.longest_task for one in frames),
        "key_ms": round(typing, 1),
        "nodes": await nodes(app),
    }
    _note(record_property, figures)
    if THOROUGH:
        assert visible < MOST_SECONDS
        assert figures["frame_p95_ms"] < MOST_FRAME
        assert figures["longest_task_ms"] < MOST_TASK


async def test_new_messages_do_not_move_the_view_of_a_user_who_reads_above(app: App, http: httpx.AsyncClient) -> None:
    """B26: a button counts the new messages, and a click on it follows the end again."""
    session = await long_session(http, 400)
    await app.open_session(session)
    await until(app.texts, lambda texts: bool(texts) and texts[-1].startswith("Message 399:"))
    await app.box.fill("flood 30")
    await app.box.press("Enter")
    await until(app.texts, lambda texts: bool(texts) and texts[-1] == "message 30 of 30")
    await scroll(app, -1500)
    anchor = await _anchor(app)
    await app.send_from_elsewhere(http, session, "flood 12")
    pill = app.page.get_by_role("button", name=re.compile(r"\d+ new"))
    await expect(pill).to_contain_text("13")
    assert await _anchor(app) == anchor
    await pill.click()
    await until(app.texts, lambda texts: texts[-1] == "message 12 of 12")
    await expect(pill).to_have_count(0)
    await app.send_from_elsewhere(http, session, "echo the end")
    await until(app.texts, lambda texts: texts[-1] == "the end")
    assert (await place(app))[1] < 64


async def test_the_end_stays_in_view_while_the_box_grows(app: App) -> None:
    """B26: however many lines are typed. A view above the end does not move."""
    await app.open()
    await app.send("flood 30")
    await until(app.texts, lambda texts: bool(texts) and texts[-1] == "message 30 of 30")
    await app.idle()
    await app.box.fill("one\n" * 12)
    await until(lambda: place(app), lambda at: at[1] < 2)
    await app.box.fill("")
    await scroll(app, -400)
    before = (await place(app))[0]
    await app.box.fill("one\n" * 12)
    at = await until(lambda: place(app), lambda at: at[1] > 500)
    assert at[0] == before


async def test_older_messages_do_not_move_the_view(app: App, http: httpx.AsyncClient) -> None:
    """B26: the message in view keeps its position when older ones are added before it."""
    session = await long_session(http, 700)
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await app.page.route("**/messages?*before=*", hold)
    async with app.page.expect_request("**/messages?*before=*"):
        await app.open_session(session)
        await until(app.texts, lambda texts: bool(texts) and texts[-1].startswith("Message 699:"))
        await scroll(app, 300)
    anchor = await until(lambda: _anchor(app), lambda at: 0 <= at[1] < 200)
    before = (await place(app))[0]
    held.set()
    await until(lambda: place(app), lambda at: at[0] > before + 5000)
    assert await _anchor(app) == anchor


@pytest.mark.parametrize("seconds", [5 if THOROUGH else 2])
@on_both_if_thorough
async def test_a_thousand_events_a_second_are_all_counted(
    app: App, gate: Gate, seconds: int, record_property: Callable[[str, object], None]
) -> None:
    """B28, C5: the inspector has every event, and typing works meanwhile."""
    await app.open()
    await app.run("warm up")
    await app.send(f"after {gate.file} rate 1000 {seconds}")
    # The page reads the stream, so that no event is in the task that a stream begins with.
    await expect(app.log).to_contain_text("Ready.")
    gate.open()
    latency: float = await app.page.evaluate(
        """async () => {
            const box = document.querySelector("textarea"); const found = [];
            for (let at = 0; at < 20; at++) {
                const begun = performance.now();
                box.value += "x"; box.dispatchEvent(new InputEvent("input", { bubbles: true }));
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                found.push(performance.now() - begun);
            }
            return Math.max(...found);
        }"""
    )
    await app.idle()
    await app.show("Events")
    total = 1000 * seconds
    counted = app.details.locator("[data-total]")

    async def updates() -> int:
        return int(await counted.get_attribute("data-artifact-updates") or 0)

    await until(updates, lambda found: found >= total)
    assert await updates() == total
    _note(record_property, {"latency_ms": round(latency, 1)})
    if THOROUGH:
        assert latency < MOST_LATENCY


async def _anchor(app: App) -> tuple[str, int]:
    """The first message that is completely in view, and its position."""
    found: list[object] = await app.page.evaluate(
        """() => {
            const box = document.querySelector("[role=log]").getBoundingClientRect();
            for (const one of document.querySelectorAll("article[data-message-id]")) {
                const at = one.getBoundingClientRect();
                if (at.top >= box.top) return [one.dataset.messageId, Math.round(at.top - box.top)];
            }
            return ["", -1];
        }"""
    )
    return str(found[0]), int(str(found[1]))


def _note(record_property: Callable[[str, object], None], figures: dict[str, float]) -> None:
    for name, value in figures.items():
        record_property(name, value)
    print("figures:", figures)
