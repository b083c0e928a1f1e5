"""Accessibility: every view for users with low vision, in both themes and at any width."""

from collections.abc import Awaitable, Callable

import httpx
import pytest
from playwright.async_api import expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.views import (
    AXE,
    DESKTOP,
    NARROW,
    SCREENSHOTS,
    THEMES,
    ZOOMED,
    faults,
    full,
    photograph,
    sideways,
    views,
)
from tests.system.wire import send

pytestmark = pytest.mark.more

without_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there; npm ci in gateway/ui installs it")


@without_axe
async def test_axe_finds_nothing_serious_in_any_view(another: Callable[..., Awaitable[App]]) -> None:
    """B32: each view in both themes; no view is wider than the window."""
    app = await another(viewport=DESKTOP)
    await full(app)
    wrong: list[str] = []
    async for view in views(app):
        for theme in THEMES:
            await app.page.emulate_media(color_scheme=theme)
            await photograph(app, f"{view}-{theme}")
            wrong += [f"{view}, {theme}: {one}" for one in [*await faults(app), *await sideways(app)]]
    assert wrong == []


@without_axe
async def test_every_view_fits_a_telephone_and_a_zoom(another: Callable[..., Awaitable[App]]) -> None:
    """B32: at 360 pixels, and at 640, as with a zoom of 200 %, without scrolling sideways and without serious
    faults."""
    app = await another(viewport=NARROW, has_touch=True, is_mobile=True)
    await full(app)
    wrong: list[str] = []
    async for view in views(app):
        for theme in THEMES if SCREENSHOTS else THEMES[:1]:
            await app.page.emulate_media(color_scheme=theme)
            await photograph(app, f"{view}-{theme}-360")
        wrong += [f"{view}: {one}" for one in [*await faults(app), *await sideways(app)]]
        await app.page.set_viewport_size(ZOOMED)
        wrong += [f"{view}, zoomed: {one}" for one in await sideways(app)]
        await app.page.set_viewport_size(NARROW)
    assert wrong == []


async def test_nothing_moves_with_reduced_motion(another: Callable[..., Awaitable[App]], gate: Gate) -> None:
    """B32: no animation runs, not even during a stream."""
    app = await another(reduced_motion="reduce")
    await app.open()
    await app.send(str(gate))
    await app.counted(3)
    moving = "document.getAnimations().filter((one) => one.playState === 'running').map((one) => one.animationName)"
    assert await app.page.evaluate(moving) == []
    await app.show("Tasks")
    assert await app.page.evaluate(moving) == []
    await app.stop()
    await app.idle()


async def test_the_theme_is_that_of_the_system_until_the_user_chooses_one(
    another: Callable[..., Awaitable[App]],
) -> None:
    """B32: the choice is kept over a reload."""
    app = await another(color_scheme="dark")
    await app.open()
    dark = await _background(app)
    await app.page.emulate_media(color_scheme="light")
    light = await until(lambda: _background(app), lambda found: found != dark)
    await app.page.get_by_role("button", name="Theme: ").click()
    await app.page.emulate_media(color_scheme="dark")
    assert await _background(app) == light
    await app.reload()
    await until(lambda: _background(app), lambda found: found == light)
    await app.page.get_by_role("button", name="Theme: ").click()
    await until(lambda: _background(app), lambda found: found == dark)


@pytest.mark.parametrize("height", [256, 200])
async def test_the_main_parts_are_reachable_with_a_zoom_of_400(
    another: Callable[..., Awaitable[App]], http: httpx.AsyncClient, height: int
) -> None:
    """B32: on a screen of 1280 pixels: a log beside a long text, an event, the sessions, and the buttons below them."""
    app = await another(viewport={"width": 320, "height": height})
    for text in ("first", "second"):
        await send(http, text)
    await app.open()
    await app.run("code")
    await app.box.fill("line\n" * 10)
    heights = [await one.evaluate("one => one.clientHeight") for one in (app.log, app.box)]
    assert heights[0] >= 100
    assert heights[1] <= height / 2
    await app.log.scroll_into_view_if_needed()
    await app.box.fill("")
    details = await app.show("Events")
    await details.locator(".records button").last.click()
    await details.get_by_role("button", name="Copy JSON").click(trial=True)
    await details.get_by_role("button", name="Close", exact=True).click()
    await app.button("Show sessions").click()
    await app.row("first").click()
    await app.shows("first", "first")
    await app.button("Show sessions").click()
    await app.button("Keyboard shortcuts").click()
    await expect(app.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


async def test_toasts_leave_room_for_the_box(another: Callable[..., Awaitable[App]], http: httpx.AsyncClient) -> None:
    """B32: three of them with a zoom of 400 %; the newest comes first, and the others are scrolled to."""
    app = await another(viewport={"width": 320, "height": 256})
    for text in ("first", "second", "third"):
        await send(http, text)
    await app.open()
    await app.button("Show sessions").click()
    for text in ("first", "second", "third"):
        await app.row(text).press("Delete")
    toasts = app.page.get_by_role("status").filter(has=app.button("Undo"))
    await expect(toasts).to_have_count(3)
    await expect(toasts.first).to_contain_text("third")
    await app.page.keyboard.press("Escape")
    await app.box.click()
    await app.box.fill("hello")
    await toasts.last.get_by_role("button", name="Undo").click()
    await expect(toasts).to_have_count(2)


async def test_states_are_visible_with_forced_colours(another: Callable[..., Awaitable[App]], gate: Gate) -> None:
    """B32: in the list, in the timeline and in Operations, where the browser replaces the background colours."""
    app = await another(forced_colors="active")
    await app.open()
    await app.send("fail")
    await app.idle()
    await app.send(str(gate))
    await app.counted(3)
    await app.show("Tasks")
    for mark in ("main .state-dot, .session .state-dot", ".mark", ".bar > span", ".legend li::before"):
        await _has_colour(app, mark)
    await app.stop()
    await app.idle()
    await app.page.goto(f"{app.url}/ui/ops?view=tasks")
    await expect(app.page.locator(".ops .mark").first).to_be_visible()
    await _has_colour(app, ".ops .mark")


async def test_buttons_name_their_session_or_the_number_of_their_items(app: App) -> None:
    """B32: the buttons of a session have its title, and those of the panel the number of entries."""
    await app.open()
    await app.run("artifact")
    row = app.sessions.locator(".session").filter(has_text="artifact")
    for name in ("Rename", "Delete"):
        await expect(row.get_by_role("button", name=f"{name}: artifact")).to_have_count(1)
    for name, count in (("Tasks", 1), ("Artifacts", 3)):
        await expect(app.button(name).first).to_have_accessible_description(f"{name}: {count}")


async def test_a_long_name_of_an_artifact_is_shown_whole(app: App) -> None:
    """B32: in the details of its task."""
    await app.open()
    await app.run(f"versions {'W' * 90}")
    details = await app.show("Tasks")
    await details.locator("li[data-task-id] button").first.click()
    name = details.get_by_role("button", name="W" * 90)
    assert await name.evaluate("one => one.scrollWidth <= one.clientWidth + 1")


async def _has_colour(app: App, selector: str) -> None:
    """Fails unless the background of the matched elements differs from that of the page."""
    one, _, pseudo = selector.partition("::")
    colours: list[str] = await app.page.locator(one).evaluate_all(
        "(all, pseudo) => all.map((one) => getComputedStyle(one, pseudo).backgroundColor)",
        f"::{pseudo}" if pseudo else None,
    )
    assert colours
    assert await _background(app) not in colours, selector


async def _background(app: App) -> str:
    color: str = await app.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return color
