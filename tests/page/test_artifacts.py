"""Artifacts: their versions, and their bytes."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Route, expect
from tests.page.app import App
from tests.page.scrolling import nodes
from tests.page.test_long import MOST_NODES

pytestmark = pytest.mark.more

FIRST = "# Draft\nFirst, Second, Third.\n"
SECOND = "# Final\nAll of it, in one piece.\n"
PIECES, PIECE = 80, 65_536


async def test_chunks_become_one_artifact_with_two_versions(app: App) -> None:
    """B27, P5: one entry; each download has the bytes of the agent."""
    await app.open()
    await app.run("versions Plan")
    await app.show("Artifacts")
    entry = app.details.locator("[data-artifact-id]")
    await expect(entry).to_have_count(1)
    await expect(entry).to_contain_text("Plan")
    assert await _downloaded(app) == SECOND.encode()
    await app.details.get_by_label("Version").select_option("1")
    assert await _downloaded(app) == FIRST.encode()
    listed = asyncio.Event()

    async def late(route: Route) -> None:
        await listed.wait()
        await route.continue_()

    await app.page.route("**/api/tasks/*/artifacts", late)
    await app.reload()
    await app.show("Artifacts")
    assert await _downloaded(app) == SECOND.encode(), "the newest one, while it is not known that it is the second"
    listed.set()
    await expect(app.details.get_by_label("Version")).to_have_value("2")
    assert await _downloaded(app) == SECOND.encode()


async def test_each_version_shows_its_own_content_after_a_reload(app: App) -> None:
    """B27, P5: the content loaded with the session is that of the newest version."""
    await app.open()
    await app.run("versions Plan")
    await app.reload()
    await app.show("Artifacts")
    for version, words in ("1", "Draft"), ("2", "Final"), ("1", "Draft"):
        await app.details.get_by_label("Version").select_option(version)
        await expect(app.details.locator(".opened")).to_contain_text(words)


async def test_artifacts_disappear_with_a_rewind_by_another_client(
    app: App, another: Callable[..., Awaitable[App]]
) -> None:
    """R11: and return with its undo."""
    await app.open()
    await app.run("hello")
    await app.run("artifact")
    beside = await (await another()).open_session(app.session)
    await app.show("Artifacts")
    entries = app.details.locator("[data-artifact-id]")
    await expect(entries).to_have_count(3)
    await beside.rewind(2)
    await expect(entries).to_have_count(0)
    await beside.button("Undo rewind").click()
    await expect(entries).to_have_count(3)


async def test_an_artifact_of_five_megabytes_leaves_the_page_usable(app: App, http: httpx.AsyncClient) -> None:
    """B27: the bytes are identical, and the page does not show all of them at once."""
    await app.open()
    await app.send(f"chunks {PIECES} {PIECE}")
    await app.has_states("completed")
    await app.button("Artifacts").click()
    await expect(app.details.locator("[data-artifact-id]")).to_have_count(1)
    task = (await http.get(f"/api/sessions/{await app.in_session()}/task-infos")).json()["data"][0]["taskId"]
    whole = (await http.get(f"/api/tasks/{task}/artifacts/chunks")).content
    assert len(whole) == PIECES * PIECE
    assert await _downloaded(app) == whole
    assert await nodes(app) < MOST_NODES
    await app.run("still quick")
    await expect(app.articles.last).to_contain_text("still quick")


async def _downloaded(app: App) -> bytes:
    button = app.details.get_by_role("button", name=re.compile("^Download"))
    async with app.page.expect_download() as download:
        await button.first.click()
    path: Path = await (await download.value).path()
    return await asyncio.to_thread(path.read_bytes)
