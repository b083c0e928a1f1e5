"""The contents of a conversation: everything received is shown in its position, and can be reached."""

import json
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Locator, Request, Route, expect
from tests.page.app import App, until
from tests.page.gated import IMAGE, Gate
from tests.page.test_shapes import answers

ROWS = """all => all.map((one) => one.querySelector(".end") ? "end"
    : one.querySelector("[data-artifact-id]")?.dataset.artifactId ?? one.querySelector("[data-call-id]")?.dataset.callId
    ?? one.querySelector("article > .prose, article > .bubble")?.textContent)"""
# Between contents: the room of hidden actions would be a gap.
GAPS = """all => {
    const edges = all.map(({ firstElementChild: row }) => {
        const shown = row.matches("article") ? [...row.children].filter((one) => !one.matches(".actions")) : [row];
        const boxes = shown.map((one) => one.getBoundingClientRect());
        return [Math.min(...boxes.map((box) => box.top)), Math.max(...boxes.map((box) => box.bottom))];
    });
    return edges.slice(1).map(([top], index) => Math.round(top - edges[index][1]));
}"""


async def _rows(app: App) -> list[str]:
    found: list[str] = await app.log.locator(".log-item").evaluate_all(ROWS)
    return found


async def test_artifacts_are_shown_in_their_order_live_and_after_each_reload(app: App, gate: Gate) -> None:
    """P5, P10: among messages and calls of the turn, even if the whole turn was stored at one time."""
    await app.open()
    await app.send(f"images {gate.file}")
    before = [f"images {gate.file}", "Here it is:", "one", "call", "two", "And more"]
    await until(lambda: _rows(app), lambda rows: rows == [*before, "three", "four"])
    await app.reload()
    await until(lambda: _rows(app), lambda rows: rows == [*before, "three", "four"])
    gate.open()
    after = [*before[:-1], "And more of it.", "three", "four"]
    await until(lambda: _rows(app), lambda rows: rows == after)
    await app.idle()
    await app.reload()
    await until(lambda: _rows(app), lambda rows: rows == after)


async def test_images_are_shown_in_their_order_and_documents_are_not(app: App, gate: Gate) -> None:
    """B2, P5: also an image in pieces. SVG is a document, and invalid image bytes are a file."""
    gate.open()
    await app.open()
    await app.run(f"images {gate.file}")
    pictures = app.log.locator("img")

    async def widths() -> list[object]:
        found: list[object] = await pictures.evaluate_all("all => all.map((one) => [one.alt, one.naturalWidth])")
        return found

    for reload in (False, True):
        if reload:
            await app.reload()
        await until(widths, lambda found: found == [["Dot", 64], ["Halves", 64]])
    await app.log.locator("[data-artifact-id=two]").click()
    shown = app.details.locator("img")
    await until(lambda: shown.evaluate_all("all => all.map((one) => one.naturalHeight)"), lambda found: found == [32])


async def test_an_image_in_a_message_is_shown_and_other_bytes_are_a_download(app: App, http: httpx.AsyncClient) -> None:
    """B2: by its type or by its name, in any case."""
    picture = {"raw": _base64(IMAGE)}
    parts = [
        picture | {"mediaType": "IMAGE/PNG"},
        picture | {"filename": "dot.png"},
        {"raw": _base64(b"no"), "mediaType": "image/png", "filename": "broken.png"},
        {"raw": _base64(b"<svg/>"), "mediaType": "image/svg+xml", "filename": "drawing.svg"},
        {"text": f"![dot](data:image/png;base64,{_base64(IMAGE)})"},
    ]
    session = await _stored(http, parts)
    await app.open_session(session)
    await expect(app.log.locator("img")).to_have_count(3)
    await expect(app.log.get_by_role("link", name=re.compile("^Download "))).to_have_count(2)


async def test_parts_of_unknown_forms_are_counted_and_lead_to_their_event(app: App) -> None:
    """B4, T7: the message shows all their fields, and the inspector finds the event."""
    await app.open()
    await app.run("echo hello")
    await expect(app.page.locator(".unknown")).to_have_count(0)

    def with_more(fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("role") in ("agent", "ROLE_AGENT"):
            fields["parts"] = [*fields["parts"], {"hologram": {"of": "a cat"}}, "bare"]
        return fields

    def odd(answer: Any) -> Any:
        return json.loads(json.dumps(answer), object_hook=with_more)

    await answers(app, "/api/", odd)
    await app.reload()
    count = app.page.locator(".unknown")
    await expect(count).to_have_attribute("data-count", "2")
    part = app.article(1).locator("[data-unknown]").first
    await part.get_by_text("a form that this page does not know").click()
    await expect(part).to_contain_text('"a cat"')
    await app.button("Show in events").click()
    await expect(app.details.get_by_label("Kind", exact=True)).to_have_value("unknown")


async def test_events_of_unknown_forms_are_counted_and_can_be_listed(app: App) -> None:
    """B4, T7: also an event that is not JSON. The count leads to the list of this kind."""

    await app.page.route(f"{app.url}/**", _surprise)
    await app.open()
    await app.run("count 5 20")
    count = app.page.locator(".unknown")
    await expect(count).to_contain_text("2 things have forms that this page does not know.")
    await count.get_by_role("button", name="Show in events").press("Enter")
    rows = app.details.locator(".records li")
    await expect(rows).to_have_count(2)
    await expect(rows.last).to_contain_text("no JSON at all")
    await app.details.get_by_label("Kind", exact=True).select_option("")
    await app.details.get_by_role("button", name="2 of forms unknown here").click()
    await expect(rows).to_have_count(2)


async def test_long_code_is_shortened_and_shown_whole_on_demand(app: App) -> None:
    """B31: by keys alone, and shortened again. Copy always copies the whole code."""
    await app.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    code = "\n".join(f"line_{number} = {number}" for number in range(1, 101))
    await app.open()
    await app.run(f"echo ```python\n{code}\n```\nAfter it.")
    block = app.article(1).locator("figure.code")
    await expect(block).to_contain_text("line_24")
    await expect(block).not_to_contain_text("line_25")
    await block.get_by_role("button", name="Copy").click()
    assert await app.page.evaluate("navigator.clipboard.readText()") == code
    button = block.get_by_role("button", name="Show all 100 lines")
    await button.focus()
    await app.page.keyboard.press("Enter")
    await expect(block.locator("pre")).to_have_text(code)
    assert await block.locator("pre").evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    less = block.get_by_role("button", name="Show less")
    await expect(less).to_be_focused()
    await app.page.keyboard.press("Enter")
    await expect(block).not_to_contain_text("line_25")
    await expect(button).to_be_focused()
    await expect(button).to_be_in_viewport()


async def test_short_code_has_no_button(app: App) -> None:
    await app.open()
    await app.run("echo ```python\n" + "a = 1\n" * 32 + "```")
    await expect(app.article(1).locator("figure.code button")).to_have_count(1)


@pytest.mark.parametrize("touch", [False, True])
async def test_rows_have_even_gaps(app: App, another: Callable[..., Awaitable[App]], gate: Gate, touch: bool) -> None:
    """B32: the actions of a message take no room, shown or hidden."""
    shown: App = await another(has_touch=True, is_mobile=True) if touch else app
    await shown.open()
    gate.open()
    for text in ("echo one", "tool what is it", f"images {gate.file}", "fail the roof is leaking"):
        await shown.send(text)
        await shown.idle()
    await expect(shown.log.locator(".end")).to_have_count(1)
    await shown.page.mouse.move(0, 0)

    async def gaps() -> list[int]:
        found: list[int] = await shown.log.locator(".log-item").evaluate_all(GAPS)
        return found

    def even(found: list[int]) -> bool:
        # Heights of texts are fractions of pixels.
        return len(found) > 4 and max(found) - min(found) <= 1

    assert even(await until(gaps, even))
    await shown.log.evaluate("one => one.scrollTo(0, 0)")
    first = shown.articles.filter(has_text="echo one")
    await first.hover()
    await expect(first.get_by_role("group", name="Message actions")).to_have_css("opacity", "1")
    assert even(await until(gaps, even))


async def test_the_row_of_a_failed_task_has_the_reason(app: App, http: httpx.AsyncClient, user: str) -> None:
    """M1, P9, V1: the words of the server with their code, in the timeline, the conversation and Operations."""
    await app.open()
    await app.send("fail the roof is leaking")
    end = app.log.locator(".end")
    for reload in (False, True):
        if reload:
            await app.reload()
        await expect(end).to_contain_text("The roof is leaking.")
        await expect(end.locator(".error-code")).to_have_text("AGENT_ERROR")
        row = (await app.show("Tasks")).locator("li[data-state=failed] button.entry")
        await expect(row).to_contain_text("The roof is leaking.")
        await expect(row.locator(".error-code")).to_have_text("AGENT_ERROR")
    await app.page.goto(f"{app.url}/ui/ops?state=failed&owner={user}")
    cell = app.page.get_by_role("table", name="Tasks").get_by_role("cell").last
    await expect(cell).to_have_text("the roof is leaking AGENT_ERROR")
    await app.page.get_by_role("link", name="fail the roof is leaking", exact=True).click()
    await expect(app.page.locator(".reason")).to_have_text("the roof is leaking AGENT_ERROR")


@pytest.mark.parametrize(
    ("locale", "clock", "exact", "took"),
    [
        ("en-US", r"\d{1,2}:\d\d [AP]M", r"\d{1,2}:\d\d:\d\d\.\d{3} [AP]M", r"\d\.\d sec|\d+ ms"),
        ("de-DE", r"\d\d:\d\d", r"\d\d:\d\d:\d\d,\d{3}", r"\d,\d Sek\.|\d+ ms"),
    ],
)
async def test_times_are_written_in_the_format_of_the_locale(
    another: Callable[..., Awaitable[App]], locale: str, clock: str, exact: str, took: str
) -> None:
    """B32: in conversation, timeline, inspector and Operations; each has the full time in its tooltip."""
    app: App = await another(locale=locale, timezone_id="Europe/Berlin")
    await app.open()
    await app.run("echo hello")
    await _reads(app.article(1).locator("time"), clock)
    await app.show("Tasks")
    entry = app.details.locator("button.entry").last
    await expect(entry.locator(".figure")).to_have_text(_whole(took))
    await entry.click()
    await _reads(app.details.locator(".facts time").first, exact)
    await app.show("Events")
    await _reads(app.details.locator(".records time").first, exact)
    await app.page.goto(f"{app.url}/ui/ops?view=tasks")
    await _reads(app.page.locator(".ops table time").first, clock)


async def _reads(shown: Locator, pattern: str) -> None:
    await expect(shown).to_have_text(_whole(pattern))
    await expect(shown).to_have_attribute("title", re.compile("2[0-9]{3}"))


def _whole(pattern: str) -> re.Pattern[str]:
    # Some locales write narrow spaces.
    return re.compile("^(" + pattern.replace(" ", r"\s") + ")$")


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


async def _stored(http: httpx.AsyncClient, parts: list[dict[str, str]]) -> str:
    """Stores a session with one message of an agent, and returns its id."""
    session = f"said-{time.time_ns()}"
    message = {"messageId": f"{session}-m", "contextId": session, "role": "agent", "parts": parts}
    task = {"id": f"{session}-t", "contextId": session, "status": {"state": "completed"}, "history": [message]}
    made = await http.post("/api/sessions", json={"id": session, "name": "Said", "agent_ref": "gated"})
    stored = await http.post("/api/tasks", json=task)
    assert made.status_code < 300 and stored.status_code < 300, stored.text
    return session


async def _surprise(route: Route, request: Request) -> None:
    """Forwards a stream after an event of an unknown kind, and one that is not JSON."""
    if "SubscribeToTask" not in (request.post_data or ""):
        return await route.continue_()
    answer = await route.fetch()
    odd = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"surprise": {"text": "from the future"}}})
    return await route.fulfill(response=answer, body=f"data: {odd}\n\ndata: no JSON at all\n\n" + await answer.text())
