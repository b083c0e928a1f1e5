"""Attached files: a file that does not fit is refused before a byte of it is sent."""

import pytest
from playwright.async_api import FilePayload, expect
from tests.page.app import App

pytestmark = pytest.mark.more

GIVE = """([target, kind, name, type, size]) => {
    const data = new DataTransfer();
    data.items.add(new File(["x".repeat(size)], name, { type }));
    const init = { bubbles: true, cancelable: true };
    const event = kind === "paste" ? new ClipboardEvent("paste", { ...init, clipboardData: data })
        : new DragEvent(kind, { ...init, dataTransfer: data });
    document.querySelector(target).dispatchEvent(event);
}"""
TEXT = ["note.txt", "text/plain", 12]


async def test_files_are_dropped_pasted_and_sent(app: App) -> None:
    """B30: each is shown before it is sent, can be removed, and is sent with the message."""
    await app.open()
    await app.page.evaluate(GIVE, ["textarea", "drop", *TEXT])
    chip = app.page.get_by_text("note.txt")
    await expect(chip).to_be_visible()
    await app.button("Remove note.txt").click()
    await expect(chip).to_have_count(0)
    await app.page.evaluate(GIVE, ["textarea", "paste", *TEXT])
    await expect(chip).to_be_visible()
    await app.run("with a file")
    (send,) = app.seen.messages()
    (part,) = [part for part in send["parts"] if "raw" in part]
    assert part["filename"] == "note.txt" and part["mediaType"] == "text/plain"
    await expect(app.article(0)).to_contain_text("note.txt")
    await app.page.evaluate(GIVE, ["textarea", "paste", *TEXT])
    await app.button("Send").click()
    await expect(app.article(2)).to_contain_text("note.txt")
    await expect(app.button("Remove note.txt")).to_have_count(0)


async def test_a_file_of_a_wrong_type_or_size_is_refused_at_once(app: App) -> None:
    """B30: the error names the input modes of the card or the limit of the gateway, and nothing is sent."""
    await app.open()
    await app.run("first")
    before = len(app.seen.requests)
    refusals = app.page.get_by_role("alert")
    await app.page.evaluate(GIVE, ["textarea", "drop", "film.mp4", "video/mp4", 10])
    await expect(refusals.first).to_contain_text("video/mp4")
    await expect(refusals.first).to_contain_text("text/plain")
    for name, size in [("body.txt", 64_000_000), ("message.txt", 4_200_000)]:
        await app.page.evaluate(GIVE, ["textarea", "drop", name, "text/plain", size])
        await expect(refusals.first).to_contain_text(f"{name} is too big")
    assert await app.page.get_by_role("button", name="Remove").count() == 0
    posted = [request for request in app.seen.requests[before:] if request.method == "POST"]
    assert posted == []


async def test_a_file_attached_while_a_message_is_in_flight_stays(app: App) -> None:
    """R11: only the sent text and files leave the box."""
    await app.open()
    await app.run("first")
    picker = app.page.locator("input[type=file][multiple]")
    await picker.set_input_files(FilePayload(name="a.txt", mimeType="text/plain", buffer=b"a"))
    released = await app.hold("with a file")
    await app.box.fill("echo with a file")
    await app.box.press("Enter")
    await expect(app.articles).to_have_count(3)
    await picker.set_input_files(FilePayload(name="b.txt", mimeType="text/plain", buffer=b"b"))
    await expect(app.page.get_by_role("button", name="Remove b.txt")).to_be_visible()
    released.set()
    await app.answered(4)
    await expect(app.box).to_have_value("")
    await expect(app.page.get_by_role("button", name="Remove a.txt")).to_have_count(0)
    await expect(app.page.get_by_role("button", name="Remove b.txt")).to_have_count(1)
