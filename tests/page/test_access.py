"""What every view holds: for those who cannot see it well, in both themes and at any width."""

from collections.abc import Awaitable, Callable

import pytest
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

without_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there; npm ci in gateway/ui installs it")


@without_axe
async def test_axe_finds_nothing_serious_in_any_view(another: Callable[..., Awaitable[App]]) -> None:
    """B32: each view in both themes, and none is wider than the window."""
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
    """B32: at 360 pixels, and at 640, as with a zoom of 200 %, nothing is scrolled sideways or seriously wrong."""
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


async def test_nothing_moves_for_those_who_do_not_want_it(another: Callable[..., Awaitable[App]], gate: Gate) -> None:
    """B32: with reduced motion no animation runs, not even while something streams."""
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


async def test_the_theme_is_that_of_the_system_until_one_is_chosen(another: Callable[..., Awaitable[App]]) -> None:
    """B32: the choice is kept over a reload."""
    app = await another(color_scheme="dark")
    await app.open()
    dark = await _background(app)
    await app.page.emulate_media(color_scheme="light")
    light = await until(lambda: _background(app), lambda found: found != dark)
    await app.button("Theme").click()
    await app.page.emulate_media(color_scheme="dark")
    assert await _background(app) == light
    await app.reload()
    await until(lambda: _background(app), lambda found: found == light)
    await app.button("Theme").click()
    await until(lambda: _background(app), lambda found: found == dark)


async def _background(app: App) -> str:
    color: str = await app.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return color
