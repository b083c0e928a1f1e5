"""Sending, streaming and showing a conversation."""

from typing import Final

import httpx
import pytest
from playwright.async_api import FilePayload, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.marks import on_both
from tests.system.wire import send

HOSTILE: Final = (
    '<img src=x onerror="window.hostile=1"> [link](javascript:window.hostile=2) <script>window.hostile=3</script>'
    ' <svg onload=window.hostile=4> <iframe srcdoc="<script>top.hostile=5</script>"></iframe>'
)
HARMFUL: Final = """() => {
    const found = [];
    for (const one of document.querySelectorAll("body *")) {
        for (const { name, value } of one.attributes)
            if (name.startsWith("on") || (name !== "title" && /^\\s*javascript:/i.test(value)))
                found.push(one.outerHTML);
        if (one.matches("script, iframe[srcdoc], object, embed, base, form[action]") &&
            !one.matches("script[src]")) found.push(one.outerHTML);
    }
    return [...found, ...(window.hostile ? [`ran: ${window.hostile}`] : [])];
}"""


async def test_a_message_is_sent_streamed_and_finished(app: App) -> None:
    """B1: two messages, Markdown with highlighted code, one completed task, no id twice."""
    await app.open()
    await app.run("code")
    shown = await app.unique()
    assert [one.role for one in shown] == ["user", "agent"]
    answer = app.article(1)
    for selector in ("h2, h3, h4", "strong", "ol > li", "li ul > li", "table td", "blockquote", "pre code"):
        await expect(answer.locator(selector).first).to_be_visible()
    await expect(answer.locator("pre .hljs-keyword").first).to_be_visible()
    await app.has_states("completed")


async def test_hostile_text_is_shown_as_text_everywhere(app: App) -> None:
    """B2: no dialog, handler, script or link to a script, in messages, titles, names, arguments, records."""
    await app.open()
    for command in ("", "tool ", "versions ", "fail ", "progress 1 ", "ask "):
        await app.send(f"{command}{HOSTILE}")
        await app.idle()
        await app.in_session()
        assert await app.page.evaluate(HARMFUL) == []
    await expect(app.sessions.get_by_role("link").first).to_contain_text("<img src=x onerror=")
    for panel in ("Tasks", "Artifacts", "Events"):
        await app.show(panel)
        assert await app.page.evaluate(HARMFUL) == []
    await app.reload()
    await until(app.messages)
    assert await app.page.evaluate(HARMFUL) == []


@on_both
async def test_the_task_that_opens_a_turn_does_not_change_earlier_turns(app: App) -> None:
    """B5, T7: the stream of a turn begins with a whole task that has only the new message in its history."""
    await app.open()
    await app.run("first")
    await app.run("second")
    await app.shows("first", "first", "second", "second")
    before = await app.unique()
    await app.reload()
    await app.shows("first", "first", "second", "second")
    assert await app.unique() == before


async def test_send_again_repeats_the_first_message_of_a_failed_task_as_a_new_task(app: App) -> None:
    """B23: with its file, and only for the newest task."""
    await app.open()
    await app.page.locator("input[type=file][multiple]").set_input_files(
        [FilePayload(name="plan.txt", mimeType="text/plain", buffer=b"plan")]
    )
    await app.send("fail the roof is leaking")
    again = app.button("Send again")
    await again.click()
    await app.shows(*["fail the roof is leaking plan.txt 4 B"] * 2)
    await expect(app.page.get_by_role("link", name="plan.txt")).to_have_count(2)
    await app.idle()
    await expect(again).to_have_count(1)
    await expect(app.box).to_be_focused()
    await app.show("Tasks")
    await app.has_states("failed", "failed")
    await app.run("hello")
    await expect(again).to_have_count(0)


async def test_direct_answers_and_progress_make_no_task(app: App, gate: Gate) -> None:
    """B37, P2, P4: a direct answer has no row and no reference to it; progress is one passing line."""
    await app.open()
    await app.run("one")
    task = (await app.messages())[1].task
    await app.run("message good morning")
    await app.send(f"steps {gate.file}")
    await expect(app.progress).to_contain_text("Step 1 of 2")
    gate.open()
    await app.answered(6)
    await expect(app.progress.filter(has_text="Step")).to_have_count(0)
    await app.has_states("completed", "completed")
    sends = app.seen.messages()
    assert [send.get("referenceTaskIds", []) for send in sends] == [[], [task], [task]]
    assert not any(send.get("taskId") for send in sends)
    told = ["one", "one", "message good morning", "good morning", f"steps {gate.file}", "Both steps are done."]
    await app.shows(*told)
    await app.reload()
    await app.shows(*told)


@pytest.mark.parametrize("text", ["  two  spaces ", "שלום עולם", "# no heading of mine", "a\nb"])
async def test_the_text_of_a_user_is_not_read_as_markdown(app: App, text: str) -> None:
    """B1: its lines stay as written."""
    await app.open()
    await app.run(text)
    assert (await app.messages())[0].text.strip() == text.strip()
    await expect(app.article(0).locator("h1")).to_have_count(0)


async def test_a_task_older_than_the_loaded_messages_keeps_its_position(app: App, http: httpx.AsyncClient) -> None:
    """T6: its messages are loaded with the older ones."""
    await app.open()
    await app.run("first")
    session = app.session
    said = [f"d{number}" for number in range(60)]
    for word in said:
        await send(http, f"message {word}", contextId=session)
    await app.reload()
    await expect(app.page.locator(".log-item").last).to_contain_text("d59")
    assert (await app.texts())[-1] == "d59"
