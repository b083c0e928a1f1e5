"""The keyboard: every action has a key, and typed text stays text."""

from typing import Any

import pytest
from playwright.async_api import Locator, expect
from tests.page.app import App, until
from tests.page.gated import Gate

pytestmark = pytest.mark.more

FOCUSED = """() => {
    const one = document.activeElement;
    if (!one || one === document.body) return "";
    const at = one.getBoundingClientRect();
    return at.width && at.height ? one.getAttribute("aria-label") || one.textContent.trim() || one.tagName : "";
}"""


async def test_the_main_actions_work_with_the_keyboard(app: App, gate: Gate) -> None:
    """B31: a new chat, a send, a stop, a task, a rewind, a closed panel; the focus is never lost."""
    await app.open()
    await app.run("A")
    await app.run("B")
    keys = app.page.keyboard
    await app.log.focus()
    await keys.press("t")
    await expect(app.details).to_be_visible()
    await _tab_to(app, "completed", inside="aside, [role=region][aria-label=Details], section[aria-label=Details]")
    await keys.press("Escape")
    await expect(app.details).to_have_count(0)
    await _tab_to(app, "Rewind to here", inside="[data-role=user]")
    await keys.press("Enter")
    await app.shows("A", "A")
    await expect(app.box).to_be_focused()
    await app.box.fill(str(gate))
    await keys.press("Enter")
    await app.counted(3)
    await _tab_to(app, "Stop")
    await keys.press("Enter")
    await app.idle()
    await until(lambda: app.page.evaluate(FOCUSED))
    await app.log.focus()
    await keys.press("n")
    await expect(app.articles).to_have_count(0)
    await expect(app.box).to_be_focused()


async def test_the_keys_are_listed(app: App) -> None:
    """B31: `?` opens the list, Escape closes it, and the focus returns to its element."""
    dialog = await _list_of_keys(app)
    await expect(dialog).to_contain_text("New chat")
    await app.page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(app.log).to_be_focused()


async def test_the_keys_of_the_panel_move_the_focus_into_it_and_back(app: App) -> None:
    """B31: Escape closes the panel, and the conversation has the focus again."""
    await app.open()
    await app.run("A")
    await app.log.focus()
    await app.page.keyboard.press("a")
    await expect(app.page.locator(".details")).to_be_focused()
    await app.page.keyboard.press("Escape")
    await expect(app.log).to_be_focused()


async def test_single_letter_shortcuts_can_be_switched_off(app: App) -> None:
    """B31: for speech input (WCAG 2.1.4). The choice is kept, and Escape still works."""
    await app.open()
    await app.run("A")
    await app.page.get_by_role("button", name="Keyboard shortcuts").click()
    await app.page.get_by_role("checkbox", name="Single letters").uncheck()
    await app.page.keyboard.press("Escape")
    await app.reload()
    await app.log.focus()
    await app.page.keyboard.press("n")
    await app.page.keyboard.press("?")
    await app.show("Tasks")
    await app.page.keyboard.press("Escape")
    await expect(app.details).to_have_count(0)
    await expect(app.articles).to_have_count(2)
    await expect(app.page.get_by_role("dialog")).to_have_count(0)


async def test_enter_ends_a_composition_and_sends_nothing(app: App) -> None:
    """B34: with an input method Enter accepts a word; Shift+Enter begins a new line."""
    await app.open()
    await app.box.focus()
    session: Any = await app.page.context.new_cdp_session(app.page)
    await session.send("Input.imeSetComposition", {"text": "にほ", "selectionStart": 2, "selectionEnd": 2})
    await expect(app.box).to_have_value("にほ")
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229}
    await session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **key})
    await session.send("Input.insertText", {"text": "日本"})
    await expect(app.box).to_have_value("日本")
    assert app.seen.calls("SendMessage") == []
    await app.page.keyboard.press("Shift+Enter")
    await app.page.keyboard.type("two")
    await expect(app.box).to_have_value("日本\ntwo")
    assert app.seen.calls("SendMessage") == []
    await app.page.keyboard.press("Enter")
    await app.answered(2)
    assert app.seen.calls("SendMessage")[0].message["parts"] == [{"text": "日本\ntwo"}]


async def test_right_to_left_text_is_set_right_to_left(app: App) -> None:
    """B34: the direction is that of the text, in the box, in messages of both sides and in the list."""
    await app.open()
    await app.box.fill("שלום")
    assert await app.box.evaluate("one => getComputedStyle(one).direction") == "rtl"
    await app.box.press("Enter")
    await app.answered(2)
    await app.run("rtl")
    for index in (0, 1, 3):
        text = app.article(index).locator("p").first
        assert await text.evaluate("one => getComputedStyle(one).direction") == "rtl", index
    title = app.row("שלום").get_by_text("שלום")
    assert await title.evaluate("one => getComputedStyle(one).direction") == "rtl"


async def _tab_to(app: App, name: str, inside: str = "*") -> None:
    """Presses Tab until the focus is on an element with this text in its name. The focus is always on a visible
    element."""
    for _ in range(80):
        await app.page.keyboard.press("Tab")
        focused = await app.page.evaluate(FOCUSED)
        if name.lower() in focused.lower():
            within = await app.page.evaluate("within => !!document.activeElement.closest(within)", inside)
            if within:
                outline = await app.page.evaluate(
                    "() => { const one = getComputedStyle(document.activeElement); "
                    "return [one.outlineStyle, one.boxShadow]; }"
                )
                assert outline != ["none", "none"], focused
                return
    raise AssertionError(f"Tab never comes to {name}")


async def test_elements_below_the_list_of_keys_cannot_be_reached(app: App) -> None:
    """B31: a click beside the list only closes it, and Tab stays within it."""
    dialog = await _list_of_keys(app)
    for _ in range(4):
        await app.page.keyboard.press("Tab")
        assert not await app.page.evaluate("() => document.activeElement.matches('.shell :not(#help, #help *)')")
    await app.button("New chat").first.click(force=True)
    await expect(dialog).to_have_count(0)
    await app.shows("A", "A")


async def test_escape_clears_a_search_before_it_closes_the_panel(app: App) -> None:
    """B31: the next Escape closes the panel."""
    await app.open()
    await app.run("A")
    await app.show("Events")
    for field in (app.page.get_by_role("searchbox", name="Search sessions"), app.details.get_by_role("searchbox")):
        await field.fill("something")
        await field.press("Escape")
        await expect(field).to_have_value("")
        await expect(app.details).to_be_visible()
    await app.page.keyboard.press("Escape")
    await expect(app.details).to_have_count(0)


async def test_escape_closes_a_dialog_of_operations_first(app: App) -> None:
    """B31: also while a panel of the conversation is open."""
    await app.open()
    await app.run("A")
    await app.show("Tasks")
    await app.page.keyboard.press("g")
    await app.page.keyboard.press("o")
    await app.page.get_by_role("navigation", name="Operations").get_by_role("link", name="Tasks").click()
    await app.page.get_by_role("rowheader").get_by_role("link").first.click()
    await app.button("Delete task").click()
    await expect(app.page.get_by_role("dialog")).to_be_visible()
    await app.page.keyboard.press("Escape")
    await expect(app.page.get_by_role("dialog")).to_have_count(0)


async def _list_of_keys(app: App) -> Locator:
    """Opens the list of keys from a conversation."""
    await app.open()
    await app.run("A")
    await app.log.focus()
    await app.page.keyboard.press("?")
    dialog = app.page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(dialog).to_be_visible()
    return dialog
