"""Drafts: the session and tab that own them, and their end."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, FilePayload, Request, Route, expect
from tests.page.app import App, until
from tests.page.keys import as_client, sign_in, signed_in, with_keys
from tests.system.wire import result, text_message

pytestmark = pytest.mark.more

SHARED = "localStorage.getItem('taskplane.draft.')"
"""Reads the draft of a new conversation that this browser keeps."""


@pytest.mark.parametrize("begun", [True, False])
async def test_a_message_is_no_draft_after_its_session_was_left_before_the_answer(app: App, *, begun: bool) -> None:
    """In an existing session and in a new conversation: the message is there once, and the box is empty."""
    await app.open()
    await app.run("elsewhere")
    other = app.session
    if begun:
        await app.new_chat()
        await app.run("first")
    else:
        await app.new_chat()
    session = app.session
    answer = await app.hold("sent once")
    await app.box.fill("echo sent once")
    async with app.page.expect_request(lambda request: "sent once" in (request.post_data or "")):
        await app.box.press("Enter")
    await app.page.locator(f'[data-session-id="{other}"] a').click()
    await app.shows("elsewhere", "elsewhere")
    async with app.page.expect_response(lambda response: "sent once" in (response.request.post_data or "")):
        answer.set()
    await until(_drafts(app), lambda drafts: drafts == [])
    await app.page.goto(f"{app.url}/ui/sessions/{session}" if begun else f"{app.url}/ui")
    await expect(app.box).to_have_value("")


@pytest.mark.parametrize("got", ["the server got it", "the server did not get it"])
@pytest.mark.parametrize("begun", [True, False])
async def test_a_message_with_a_lost_answer_is_done_once_despite_a_reload(app: App, *, begun: bool, got: str) -> None:
    """R11: a message that the server has is no draft; otherwise it is sent again under its old id."""
    app.seen.allow(r"net::ERR_FAILED")

    async def cut(route: Route, request: Request) -> None:
        if "said once" in (request.post_data or "") and got == "the server got it":
            await route.fetch()
        await route.abort()

    await app.open()
    if begun:
        await app.run("first")
    await app.box.fill("echo said once")
    # All later reads fail, so the page does not learn of the message before the reload.
    await app.page.route(f"{app.url}/**", cut)
    await app.box.press("Enter")
    await expect(app.alerts.first).to_be_visible()
    await expect(app.box).to_have_value("echo said once")
    await app.page.unroute_all(behavior="wait")
    await app.reload()
    if got == "the server got it":
        await expect(app.box).to_have_value("")
        await until(_drafts(app), lambda drafts: drafts == [])
        if not begun:
            await app.row("echo said once").click()
    else:
        await expect(app.box).to_have_value("echo said once")
        await app.box.press("Enter")
    before = ["first", "first"] if begun else []
    await app.shows(*before, "echo said once", "said once")
    calls = [call for call in app.seen.calls("SendMessage") if "said once" in str(call.message)]
    sent = {(call.message["messageId"], call.message["contextId"], call.headers["idempotency-key"]) for call in calls}
    assert len(calls) == 1 + (got != "the server got it") and len(sent) == 1


@pytest.mark.parametrize("again", ["loaded again", "kept"])
async def test_a_message_cut_by_another_client_is_sent_as_a_new_one(
    app: App, http: httpx.AsyncClient, again: str
) -> None:
    """R2: its answer was lost, and the user sends the text again."""
    await _cut_unanswered(app, http)
    if again == "loaded again":
        await app.reload()
        await app.shows("first", "first")
    await expect(app.box).to_have_value("echo said twice")
    await app.box.press("Enter")
    await expect(app.banner("notice").or_(app.alerts.first)).to_contain_text("rewound")
    await app.box.press("Enter")
    await app.shows("first", "first", "echo said twice", "said twice")
    await app.reload()
    await app.shows("first", "first", "echo said twice", "said twice")


async def test_a_message_cut_by_another_client_returns_to_the_draft_of_its_own_session(
    app: App, http: httpx.AsyncClient
) -> None:
    """R11: also if the user has opened another session before the repetition is refused."""
    await _cut_unanswered(app, http)
    await app.box.fill("meanwhile")
    released = await app.hold("said twice")
    await app.button("Retry").click()
    await app.new_chat()
    await app.box.fill("of another")
    async with app.page.expect_response(lambda response: "said twice" in (response.request.post_data or "")):
        released.set()
    await app.row("first").click()
    await expect(app.box).to_have_value("echo said twice\n\nmeanwhile")
    await app.new_chat()
    await expect(app.box).to_have_value("of another")


async def test_the_same_text_with_another_file_is_a_new_message(app: App) -> None:
    """A reload loses attached files, so the failed message cannot be repeated."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")
    await app.page.locator("input[type=file][multiple]").set_input_files([_file("a.txt")])
    await _fail(app, "echo with a file")
    await until(_drafts(app))
    await app.page.unroute_all(behavior="wait")
    await app.reload()
    await app.page.locator("input[type=file][multiple]").set_input_files([_file("b.txt")])
    await app.box.press("Enter")
    await app.answered(4)
    calls = [call.message for call in app.seen.calls("SendMessage") if "with a file" in str(call.message)]
    assert [call["parts"][-1]["filename"] for call in calls] == ["a.txt", "b.txt"]
    assert len({call["messageId"] for call in calls}) == 2


async def test_a_draft_changed_after_a_failure_stays_whole(app: App) -> None:
    """A retry sends the failed text, and removes nothing from another text with the same beginning."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")
    await _fail(app, "hi")
    await app.page.unroute_all(behavior="wait")
    await app.box.fill("history of Rome")
    await app.button("Retry").click()
    await app.shows("first", "first", "hi", "hi")
    await expect(app.box).to_have_value("history of Rome")


async def test_a_failed_message_returns_to_the_draft_when_its_session_is_left(app: App) -> None:
    """R11: once, and only if the draft does not have it. Text written since then follows."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")
    await _fail(app, "echo lost")
    await app.new_chat()
    await app.row("first").click()
    await expect(app.box).to_have_value("echo lost")
    await app.box.press("Enter")
    await expect(app.alerts.first).to_be_visible()
    await app.box.fill("other")
    await app.new_chat()
    await expect(app.box).to_have_value("")
    await app.row("first").click()
    await expect(app.box).to_have_value("echo lost\n\nother")


async def test_a_discarded_message_returns_to_the_draft_with_its_files(app: App) -> None:
    """R11: no attached file is lost."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")
    await app.page.locator("input[type=file][multiple]").set_input_files([_file("a.txt")])
    await _fail(app, "echo with a file")
    await app.box.fill("")
    await app.page.get_by_role("button", name="Remove a.txt").click()
    await app.button("Discard").click()
    await expect(app.box).to_have_value("echo with a file")
    await expect(app.page.get_by_role("button", name="Remove a.txt")).to_be_visible()
    await app.page.unroute_all(behavior="wait")
    await app.box.press("Enter")
    await app.answered(4)
    assert app.seen.calls("SendMessage")[-1].message["parts"][-1]["filename"] == "a.txt"


@pytest.mark.parametrize("left", [True, False])
async def test_files_of_a_discarded_message_are_attached_once(app: App, *, left: bool) -> None:
    """R11: also files that are still in the draft, whether the message is discarded or its session is left."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")
    await app.page.locator("input[type=file][multiple]").set_input_files([_file("a.txt")])
    await _fail(app, "echo with a file")
    if left:
        await app.page.get_by_role("button", name="Remove a.txt").click()
        await app.new_chat()
        await app.row("first").click()
    else:
        await app.button("Discard").click()
    await expect(app.box).to_have_value("echo with a file")
    await expect(app.page.get_by_role("button", name="Remove a.txt")).to_have_count(1)


async def test_a_failed_message_disappears_when_another_tab_sends_it(
    app: App, another: Callable[..., Awaitable[App]]
) -> None:
    """The other tab has the draft with its id; this tab drops the error and the text."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")
    await _fail(app, "echo second")
    await until(_drafts(app))
    other = await (await another(app)).open_session(app.session)
    await expect(other.box).to_have_value("echo second")
    await other.box.press("Enter")
    for tab in (other, app):
        await tab.shows("first", "first", "echo second", "second")
        await expect(tab.box).to_have_value("")
        await expect(tab.alerts).to_have_count(0)


async def test_a_tab_without_text_keeps_the_draft_of_another_tab(
    app: App, another: Callable[..., Awaitable[App]]
) -> None:
    """Two tabs of one browser show the same session; one of them writes."""
    await app.open()
    await app.run("one")
    session = app.session
    page = await app.page.context.new_page()
    idle = await App(page, app.url, app.seen).open_session(session)
    await idle.shows("one", "one")
    await app.box.fill("half written")
    await until(_drafts(app))
    await idle.new_chat()
    third = await App(await app.page.context.new_page(), app.url, app.seen).open_session(session)
    await expect(third.box).to_have_value("half written")


async def test_the_draft_of_a_closed_tab_ends_when_another_tab_sends_it(app: App) -> None:
    """R11: also after a reload, though the text was not changed."""
    await app.open()
    await app.run("one")
    session = app.session
    await app.box.fill("echo two")
    await until(_drafts(app))
    await app.page.goto("about:blank")
    other = await App(await app.page.context.new_page(), app.url, app.seen).open_session(session)
    await expect(other.box).to_have_value("echo two")
    await other.box.press("Enter")
    await other.shows("one", "one", "echo two", "two")
    await other.reload()
    await other.shows("one", "one", "echo two", "two")
    await expect(other.box).to_have_value("")


async def test_two_tabs_of_one_session_keep_their_own_drafts(app: App, another: Callable[..., Awaitable[App]]) -> None:
    """R11: a send in one tab does not change the draft of the other, also after a reload."""
    await app.open()
    await app.run("one")
    beside = await (await another(beside=app)).open_session(app.session)
    await app.box.fill("half written")
    await until(_drafts(app))
    await beside.run("two")
    await app.shows("one", "one", "two", "two")
    await app.reload()
    await expect(app.box).to_have_value("half written")


async def test_two_tabs_of_a_new_conversation_keep_their_own_drafts(
    app: App, another: Callable[..., Awaitable[App]]
) -> None:
    """R11: each tab finds its own draft again."""
    await app.open()
    await app.run("one")
    await app.new_chat()
    beside = await (await another(beside=app)).open()
    await app.box.fill("of the first tab")
    await until(_drafts(app))
    await beside.box.fill("of the second tab")
    await until(lambda: app.page.evaluate(SHARED), lambda text: text == "of the second tab")
    for tab, text in (app, "of the first tab"), (beside, "of the second tab"):
        await tab.row("one").click()
        await expect(tab.box).to_have_value("")
        await tab.new_chat()
        await expect(tab.box).to_have_value(text)


async def test_files_stay_in_the_draft_to_which_they_were_attached(app: App) -> None:
    """R11: while another session is shown."""
    await app.open()
    await app.run("one")
    await app.page.locator("input[type=file][multiple]").set_input_files([_file("a.txt")])
    attached = app.page.get_by_role("button", name="Remove a.txt")
    await expect(attached).to_be_visible()
    await app.new_chat()
    await expect(attached).to_have_count(0)
    await app.row("one").click()
    await expect(attached).to_be_visible()


async def test_sent_files_do_not_come_back(app: App) -> None:
    """R11: also if their session was left before the answer."""
    await app.open()
    await app.run("one")
    await app.page.locator("input[type=file][multiple]").set_input_files([_file("a.txt")])
    answer = await app.hold("with a file")
    await app.box.fill("echo with a file")
    async with app.page.expect_request(lambda request: "with a file" in (request.post_data or "")):
        await app.box.press("Enter")
    await app.new_chat()
    answer.set()
    await until(_drafts(app), lambda drafts: drafts == [])
    await app.row("one").click()
    await app.answered(4)
    await expect(app.page.get_by_role("button", name="Remove a.txt")).to_have_count(0)


async def test_an_example_keeps_the_written_text(app: App) -> None:
    """R11: the example comes before the text, and another example replaces it."""
    await app.open()
    examples = app.page.locator(".prompts button")
    words = [await examples.nth(index).locator("code").inner_text() for index in range(2)]
    for index in range(2):
        await examples.nth(index).click()
        await expect(app.box).to_have_value(words[index])
    await app.box.fill("my own")
    await examples.first.click()
    await expect(app.box).to_have_value(f"{words[0]}\n\nmy own")


async def test_undoing_a_rewind_keeps_a_changed_draft(app: App) -> None:
    """B22, R11: the user has changed the text that the rewind gave back."""
    await app.open()
    await app.run("one")
    await app.run("two")
    await app.rewind(2)
    await expect(app.box).to_have_value("two")
    await app.box.fill("two and much more")
    await app.button("Undo rewind").click()
    await app.shows("one", "one", "two", "two")
    await expect(app.box).to_have_value("two and much more")


async def test_a_slow_session_does_not_delay_another(app: App) -> None:
    """R11: a message is sent while the answer of another session is awaited."""
    await app.open()
    await app.run("one")
    await app.new_chat()
    await app.run("two")
    answer = await app.hold("slow one")
    await app.box.fill("echo slow one")
    async with app.page.expect_request(lambda request: "slow one" in (request.post_data or "")):
        await app.box.press("Enter")
    await app.row("one").click()
    await app.run("three")
    await app.shows("one", "one", "three", "three")
    answer.set()
    await app.row("two").click()
    await app.shows("two", "two", "echo slow one", "slow one")


async def test_a_revoked_key_is_asked_for_at_the_next_action(browser: Browser, tmp_path: Path) -> None:
    """I6: also in a new conversation. The draft is there after signing in again."""
    async with signed_in(browser, tmp_path, "ann", ann=("read", "write"), bob=("read",)) as app:
        app.seen.allow("status of 401")
        await app.box.fill("hello")
        with_keys(tmp_path, bob=("read",))
        async with as_client(app.url, "ann") as http:
            await until(lambda: http.get("/api/sessions"), lambda answer: answer.status_code == 401)
        await app.box.press("Enter")
        await expect(app.button("Sign in")).to_be_visible()
        with_keys(tmp_path, ann=("read", "write"))
        async with as_client(app.url, "ann") as http:
            await until(lambda: http.get("/api/sessions"), lambda answer: answer.status_code == 200)
        await sign_in(app, "ann")
        await expect(app.box).to_have_value("hello")


async def test_an_invalid_key_is_refused_until_a_valid_one_is_given(browser: Browser, tmp_path: Path) -> None:
    """I6: also a key that was kept over a reload; the field has it, to be replaced."""
    async with signed_in(browser, tmp_path, "nobody", ann=("read", "write")) as app:
        app.seen.allow("status of 401")
        field = app.page.get_by_label("Key", exact=True)
        await expect(app.alerts).to_contain_text("key")
        await expect(field).to_be_focused()
        await app.page.reload()
        await expect(field).to_be_visible()
        await sign_in(app, "ann")
        await expect(app.box).to_be_visible()
        await app.reload()
        await expect(app.box).to_be_visible()


async def test_a_deleted_session_is_gone_after_signing_out(browser: Browser, tmp_path: Path) -> None:
    """S4: also within the time of Undo."""
    async with signed_in(browser, tmp_path, "ann", ann=("read", "write")) as app:
        await app.run("hello")
        session = app.session
        await app.row("hello").press("Delete")
        await app.button("Sign out").click()
        await expect(app.button("Sign in")).to_be_visible()
        async with as_client(app.url, "ann") as http:
            await until(lambda: http.get(f"/api/sessions/{session}"), lambda answer: answer.status_code == 404)


async def test_signing_out_removes_drafts_sessions_and_messages_for_the_next_user(
    browser: Browser, tmp_path: Path
) -> None:
    """In the same browser: neither the page nor its storage has them."""
    async with signed_in(browser, tmp_path, "ann", ann=("read", "write"), bob=("read", "write")) as app:
        await app.run("hello")
        app.seen.allow(r"net::ERR_FAILED")
        await _fail(app, "for nobody else")
        await until(_drafts(app))
        await app.page.unroute_all(behavior="wait")
        await app.button("Sign out").click()
        await sign_in(app, "bob")
        await expect(app.box).to_be_visible()
        await app.page.goto(f"{app.url}/ui")
        await expect(app.box).to_have_value("")
        stored = await app.page.evaluate("() => JSON.stringify(localStorage)")
        assert "nobody else" not in stored and "hello" not in stored
    assert app.seen.unexpected() == []


async def test_a_user_who_signs_in_without_a_reload_finds_nothing_of_the_previous_user(
    browser: Browser, tmp_path: Path
) -> None:
    """The key of the previous user is refused, so the page asks for a key."""
    async with signed_in(browser, tmp_path, "ann", ann=("read", "write"), bob=("read", "write")) as app:
        app.seen.allow("status of 40")
        await app.run("another of ann")
        session = app.session
        await app.new_chat()
        await app.run("of ann only")
        await app.box.fill("for nobody else")
        await until(_drafts(app))
        await app.show("Events")
        await expect(app.details.get_by_role("listitem").first).to_contain_text("of ann only")
        refused = {"error": "no", "code": "BAD_CREDENTIALS"}
        await app.page.route(f"**/api/sessions/{session}**", lambda route: route.fulfill(status=401, json=refused))
        await app.page.locator(f'[data-session-id="{session}"] a').click()
        await expect(app.page.get_by_label("Key", exact=True)).to_be_visible()
        await app.page.unroute_all(behavior="wait")
        await sign_in(app, "bob")
        await expect(app.page.get_by_text("This session is not here")).to_be_visible()
        assert "ann" not in await app.page.locator("body").inner_text()
        await app.new_chat()
        await expect(app.box).to_have_value("")
        stored = await app.page.evaluate("() => JSON.stringify(localStorage)")
        assert "nobody else" not in stored and "of ann" not in stored
    assert app.seen.unexpected() == []


async def _fail(app: App, text: str) -> None:
    """Sends a text while no agent can be reached, and leaves that so."""
    await app.page.route("**/agents/**", lambda route: route.abort())
    await app.box.fill(text)
    await app.box.press("Enter")
    await expect(app.alerts.first).to_be_visible()


async def _cut_unanswered(app: App, http: httpx.AsyncClient) -> None:
    """Sends a second message, loses its answer, and rewinds it as another client. The page does not learn."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.run("first")

    async def cut(route: Route, request: Request) -> None:
        if "said twice" in (request.post_data or ""):
            await route.fetch()
        await route.abort()

    await app.box.fill("echo said twice")
    await app.page.route(f"{app.url}/**", cut)
    await app.box.press("Enter")
    await expect(app.alerts.first).to_be_visible()
    await until(_drafts(app))
    messages = (await http.get(f"/api/sessions/{app.session}/messages")).json()["data"]["messages"]
    turn = {"kagent_rewind_before_invocation_id": messages[-1]["metadata"]["kagent_invocation_id"]}
    await result(http, "SendMessage", {"message": text_message("", contextId=app.session, metadata=turn)})
    await app.page.unroute_all(behavior="wait")


def _file(name: str) -> FilePayload:
    return FilePayload(name=name, mimeType="text/plain", buffer=name.encode())


def _drafts(app: App) -> Callable[[], Awaitable[list[str]]]:
    async def kept() -> list[str]:
        found: list[str] = await app.page.evaluate(
            "() => Object.keys(localStorage).filter(key => key.startsWith('taskplane.draft.'))"
        )
        return found

    return kept
