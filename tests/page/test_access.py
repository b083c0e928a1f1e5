"""What every view holds: for those who cannot see it well, in both themes and at any width."""

from collections.abc import Awaitable, Callable

import pytest
from tests.page.app import App, until
from tests.page.views import AXE, DESKTOP, NARROW, faults, full, photograph, sideways, views

without_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there; npm ci in gateway/ui installs it")


@without_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_any_view(another: Callable[..., Awaitable[App]], theme: str) -> None:
    """B32: each view in both themes, and none is wider than the window."""
    app = await another(color_scheme=theme, viewport=DESKTOP)
    await full(app)
    wrong: dict[str, list[str]] = {}
    async for view in views(app):
        await photograph(app, f"{view}-{theme}")
        wrong[view] = await faults(app) + await sideways(app)
    assert [f"{view}: {one}" for view, found in wrong.items() for one in found] == []


@without_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_view_fits_a_telephone(another: Callable[..., Awaitable[App]], theme: str) -> None:
    """B32: at 360 pixels nothing is scrolled sideways, and nothing serious is found either."""
    app = await another(color_scheme=theme, viewport=NARROW, has_touch=True, is_mobile=True)
    await full(app)
    wrong: dict[str, list[str]] = {}
    async for view in views(app):
        await photograph(app, f"{view}-{theme}-360")
        wrong[view] = await sideways(app) + (await faults(app) if theme == "light" else [])
    assert [f"{view}: {one}" for view, found in wrong.items() for one in found] == []


async def test_at_twice_the_size_nothing_is_scrolled_sideways(another: Callable[..., Awaitable[App]]) -> None:
    """B32: a zoom of 200 % on a screen of 1280 pixels, and in a window that is hardly high."""
    app = await another(viewport={"width": 640, "height": 400}, device_scale_factor=2)
    await full(app)
    wrong = {view: found async for view in views(app) if (found := await sideways(app))}
    assert wrong == {}


async def test_nothing_moves_for_those_who_do_not_want_it(another: Callable[..., Awaitable[App]]) -> None:
    """B32: with reduced motion no animation runs, not even while something streams."""
    app = await another(reduced_motion="reduce")
    await app.open()
    await app.send("count 100 30")
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
