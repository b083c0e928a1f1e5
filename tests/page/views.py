"""Opens every view of the page, for tests that examine each of them."""

import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import ViewportSize, expect
from tests.page.app import App, until
from tests.repo.tree import ROOT

AXE: Final = ROOT / "gateway" / "ui" / "node_modules" / "axe-core" / "axe.min.js"
# Where screenshots of the views are to be written; empty: nowhere.
SCREENSHOTS: Final = os.environ.get("TASKPLANE_SCREENSHOTS", "")
DESKTOP: Final[ViewportSize] = {"width": 1280, "height": 800}
NARROW: Final[ViewportSize] = {"width": 360, "height": 740}
# The sessions have room beside the conversation, and the panel does not.
BETWEEN: Final[ViewportSize] = {"width": 800, "height": 700}
ZOOMED: Final[ViewportSize] = {"width": 640, "height": 400}
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


async def full(app: App) -> None:
    """A session with some of every kind of content. It stays open."""
    await app.open()
    await app.run("code")
    for command in ("artifact", "versions Plan", "tools 4", "tool what is it", "rtl", "fail the roof is leaking"):
        await app.send(command)
        await app.idle()
    await app.send("ask Which colour do you like?")
    await expect(app.log).to_contain_text("The agent asks")


async def views(app: App) -> AsyncGenerator[str]:
    """Yields the name of each view while it is open, in a session made by `full`."""
    narrow = (app.page.viewport_size or DESKTOP)["width"] < 700
    session = app.session
    yield "chat"
    if narrow:
        await app.button("Show sessions").click()
        await expect(app.sessions).to_be_visible()
        yield "sessions"
        await app.page.keyboard.press("Escape")
    for panel in ("Tasks", "Artifacts", "Events"):
        await app.show(panel)
        await until(lambda: app.details.locator("li, button").count())
        yield panel.lower()
        await app.page.keyboard.press("Escape")
        await expect(app.details).to_have_count(0)
    await app.log.focus()
    await app.page.keyboard.press("?")
    await expect(app.page.get_by_role("dialog")).to_be_visible()
    yield "keys"
    await app.page.keyboard.press("Escape")
    await app.page.goto(f"{app.url}/ui")
    await expect(app.box).to_be_visible()
    await expect(app.page.get_by_text("What should")).to_be_visible()
    yield "new"
    await app.page.goto(f"{app.url}/ui/agents")
    await expect(app.page.locator("main li[data-agent]").first).to_be_visible()
    yield "agents"
    await app.page.goto(f"{app.url}/ui/agents/demo")
    await expect(app.page.get_by_role("heading", name=re.compile("demo", re.IGNORECASE)).first).to_be_visible()
    yield "agent"
    await app.page.goto(f"{app.url}/ui/ops")
    operations = app.page.get_by_role("region", name="Operations")
    await expect(operations.get_by_role("table").first).to_be_visible()
    for tab in await operations.get_by_role("navigation").get_by_role("link").all():
        await tab.click()
        await expect(tab).to_have_attribute("aria-current", "page")
        yield f"ops-{(await tab.text_content() or '').lower()}"
    task = await app.page.evaluate(
        "id => fetch(`/api/sessions/${id}/task-infos`).then((one) => one.json()).then((one) => one.data[0].taskId)",
        session,
    )
    await app.page.goto(f"{app.url}/ui/ops/tasks/{task}")
    await expect(operations.get_by_text(task).first).to_be_visible()
    yield "ops-task"
    app.seen.allow("status of 404")
    await app.page.goto(f"{app.url}/ui/sessions/never-was")
    await expect(app.page.get_by_text("This session is not here")).to_be_visible()
    yield "missing"


async def faults(app: App) -> list[str]:
    """The faults of the view that axe rates serious or critical."""
    if not await app.page.evaluate("!!window.axe"):
        await app.page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = await app.page.evaluate(
        "() => axe.run(document, { resultTypes: ['violations'] }).then((one) => one.violations)"
    )
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


async def sideways(app: App) -> list[str]:
    """The elements that are wider than the window and not within an element that scrolls."""
    found: list[str] = await app.page.evaluate(
        """() => {
            const all = document.documentElement;
            if (all.scrollWidth <= all.clientWidth + 1) return [];
            return [...document.querySelectorAll("body *")]
                .filter((one) => one.getBoundingClientRect().right > all.clientWidth + 1)
                .slice(0, 5).map((one) => one.outerHTML.slice(0, 150));
        }"""
    )
    return found


async def photograph(app: App, name: str) -> None:
    """Writes a screenshot of the view, if one is requested."""
    if SCREENSHOTS:
        await app.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", animations="disabled")
