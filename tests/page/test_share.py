"""Sessions exported and imported as files, and the page of an agent."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.page.app import App
from tests.system.plane import STEADY, Plane, running

pytestmark = pytest.mark.more


async def saved(app: App, way: str) -> tuple[str, Path]:
    """The name and the content of the file that a choice of the export saves."""
    await app.button("Export").click()
    async with app.page.expect_download() as begun:
        await app.button(way).click()
    download = await begun.value
    return download.suggested_filename, await download.path()


async def test_a_session_is_exported_in_each_form_and_imported_as_a_copy(app: App) -> None:
    """S: a file of an existing session is imported under another id, which can be chosen."""
    app.seen.allow("status of 409")
    await app.open()
    await app.run("hello there")
    name, file = await saved(app, "Export as Markdown")
    assert (name, file.read_text().splitlines()[0]) == ("hello there.md", "# hello there")
    name, file = await saved(app, "Export as JSON")
    assert (name, len(json.loads(file.read_text())["tasks"])) == ("hello there.json", 1)
    name, file = await saved(app, "Export as NDJSON, to import it again")
    assert name == "hello there.ndjson"
    await app.page.get_by_label("File of a session").set_input_files(
        {"name": name, "mimeType": "application/x-ndjson", "buffer": file.read_bytes()}
    )
    await expect(app.alerts).to_contain_text("is here already")
    original = app.session
    await app.button("Import as a copy").click()
    await expect(app.alerts).to_have_count(0)
    await expect(app.page).not_to_have_url(re.compile(original))
    await app.shows("hello there", "hello there")


async def test_a_copy_with_a_lost_answer_is_made_once(app: App, http: httpx.AsyncClient) -> None:
    """S: a retry imports the same copy."""
    app.seen.allow("status of 409")
    await app.open()
    await app.run("hello there")
    _, file = await saved(app, "Export as NDJSON, to import it again")
    original = app.session
    await app.page.get_by_label("File of a session").set_input_files(
        {"name": "s.ndjson", "mimeType": "application/x-ndjson", "buffer": file.read_bytes()}
    )
    await app.lose("/api/sessions/import?*", times=1)
    await app.button("Import as a copy").click()
    await app.button("Retry").click()
    await expect(app.page).not_to_have_url(re.compile(original))
    await app.shows("hello there", "hello there")
    assert len((await http.get("/api/sessions")).json()["data"]) == 2


async def test_a_missing_session_is_shown_once_it_is_imported(app: App, http: httpx.AsyncClient) -> None:
    """S: at its own address, which the page already has."""
    app.seen.allow("status of 404")
    await app.open()
    await app.run("hello there")
    _, file = await saved(app, "Export as NDJSON, to import it again")
    session = await app.in_session()
    await http.delete(f"/api/sessions/{session}")
    await expect(app.page.get_by_role("heading", name="This session is not here")).to_be_visible()
    await app.page.get_by_label("File of a session").set_input_files(
        {"name": "s.ndjson", "mimeType": "application/x-ndjson", "buffer": file.read_bytes()}
    )
    await app.shows("hello there", "hello there")
    assert app.session == session


async def test_a_file_that_is_not_a_session_is_refused_with_its_line(app: App) -> None:
    """S: the error can be closed."""
    app.seen.allow("status of 400")
    await app.open()
    await app.page.get_by_label("File of a session").set_input_files(
        {"name": "no.ndjson", "mimeType": "application/x-ndjson", "buffer": b"no\n"}
    )
    await expect(app.alerts).to_contain_text("no.ndjson: Line 1")
    await app.button("Dismiss").first.click()
    await expect(app.alerts).to_have_count(0)


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(tmp_path: Path) -> AsyncIterator[Plane]:
    """A plane with another address in its cards."""
    async with running("one", tmp_path, {**STEADY, "TASKPLANE_GATEWAY_PUBLIC_URL": "https://plane.example"}) as started:
        yield started


@pytest.mark.parametrize("plane", ["elsewhere"], indirect=True)
async def test_an_agent_shows_its_warnings_and_its_examples_begin_a_chat(app: App) -> None:
    """The sentences are those of the gateway."""
    await app.page.goto(f"{app.url}/ui/agents/demo")
    warnings = app.page.get_by_role("list", name="Warnings")
    await expect(warnings.locator("[data-warning=OTHER_HOST]")).to_contain_text("is on another host")
    example = app.page.locator(".skills .button").first
    text = await example.text_content()
    await example.click()
    await expect(app.box).to_have_value((text or "").strip())
