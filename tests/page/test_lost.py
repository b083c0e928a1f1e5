"""Answers and files that get lost although the server did its part."""

import re
from collections.abc import Awaitable, Callable
from re import Pattern
from typing import Final

import pytest
from playwright.async_api import Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.scrolling import place

pytestmark = pytest.mark.more

FAILED: Final = r"net::ERR_FAILED|Failed to fetch dynamically imported module"


async def test_an_undo_with_a_lost_answer_does_not_send_the_message_again(app: App) -> None:
    """B22, R8: the message is shown again, so it is no draft."""
    await app.open()
    for text in ("A", "B"):
        await app.run(text)
    await app.rewind(2)
    await expect(app.box).to_have_value("B")
    await app.reload()
    await expect(app.box).to_have_value("B")
    await app.lose("/api/sessions/*/undo_rewind")
    await app.button("Undo rewind").click()
    await app.shows("A", "A", "B", "B")
    await expect(app.box).to_have_value("")
    await expect(app.button("Undo rewind")).to_have_count(0)
    await expect(app.alerts).to_have_count(0)


async def test_a_first_message_with_a_lost_answer_becomes_its_session(app: App) -> None:
    """B23, R11: the message is an ordinary one once the server shows it, and the address is that of the session."""
    await app.open()
    await app.lose("/agents/*", "SendMessage", times=1)
    await app.box.fill("hello")
    await app.box.press("Enter")
    await app.shows("hello", "hello")
    await expect(app.box).to_have_value("")
    await expect(app.alerts).to_have_count(0)
    await app.in_session()
    await app.run("next")
    await app.shows("hello", "hello", "next", "next")


async def test_a_rewind_with_a_lost_answer_is_done(app: App) -> None:
    """B20, R11: the cut text goes to the box, and no error is shown."""
    await app.open()
    for text in ("A", "B"):
        await app.run(text)
    await app.lose("/agents/*", "kagent_rewind_before_invocation_id")
    await app.rewind(2)
    await expect(app.box).to_have_value("B")
    await app.shows("A", "A")
    await expect(app.button("Undo rewind")).to_be_visible()
    await expect(app.alerts).to_have_count(0)


async def test_artifacts_are_read_again_after_a_failure(app: App) -> None:
    """A4: once the server can be reached. Late artifacts do not keep a session from opening at its end."""
    await app.open()
    for text in ("artifact", "artifact", "echo a"):
        await app.run(text)
    cards = app.page.locator("button[data-artifact-id]")
    await app.lose("/api/tasks/*/artifacts", times=3)
    await app.reload()
    await expect(app.page.locator(".head [data-count='6']")).to_be_visible()
    away = await until(lambda: place(app), lambda found: found[1] < 2)
    assert away[0] > 0
    await expect(cards.first).to_be_attached()


async def test_a_part_of_the_page_is_loaded_again_after_a_failure(another: Callable[..., Awaitable[App]]) -> None:
    """B36: with a button in its position, which loads the page again, and without the banner for a new version."""
    app = await (await another()).open()
    app.seen.allow(FAILED)
    await app.run("hello")
    again = app.button("This part was not loaded. Try again")
    parts: dict[str, tuple[Pattern[str], Callable[[], Awaitable[None]]]] = {
        "Tasks": (re.compile("/assets/panel-"), app.button("Tasks").first.click),
        "Operations": (re.compile("/assets/ops-"), app.sessions.get_by_role("link", name="Operations").click),
    }
    for part, (files, show) in parts.items():

        async def away(route: Route) -> None:
            await route.abort()

        await app.page.route(files, away)
        await app.page.route(f"{app.url}/healthz", away)
        await show()
        await expect(again).to_be_visible()
        await app.page.unroute_all(behavior="wait")
        async with app.page.expect_event("load"):
            await again.click()
        await expect(again).to_have_count(0)
        await show()
        shown = app.page.get_by_role("tab", name=part).or_(app.page.get_by_role("heading", name=part))
        await expect(shown.first).to_be_visible()
    await expect(app.banner("update")).to_have_count(0)


async def test_a_clock_that_is_ahead_does_not_change_the_shown_durations(
    another: Callable[..., Awaitable[App]], gate: Gate
) -> None:
    """B19: times are those of the server."""
    app = await another()
    await app.page.add_init_script("const now = Date.now; Date.now = () => now() + 5 * 3_600_000;")
    await app.open()
    await app.send(str(gate))
    await app.running()
    panel = await app.show("Tasks")
    bar = panel.locator("li[data-task-id] .figure")
    await expect(bar).to_have_text(re.compile(r"^\d+(\.\d)? (ms|sec)$"))
    await expect(app.page.locator("[data-progress]")).to_be_visible()
    await expect(app.page.get_by_text("you can leave this page")).to_have_count(0)
    gate.open()
    await app.idle()
