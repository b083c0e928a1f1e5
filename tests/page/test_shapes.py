"""Answers of other shapes than this gateway's: real answers, changed on the way to the page."""

import json
import shlex
import time
from typing import Any

import httpx
import pytest
from playwright.async_api import APIResponse, Request, Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.test_rewind import BEFORE, conversation

pytestmark = pytest.mark.more


async def answers(app: App, word: str, change: "Any") -> None:
    """Passes the JSON of each answer to a request that contains `word` through `change`."""

    async def altered(route: Route, request: Request) -> None:
        if word not in request.url and word not in (request.post_data or ""):
            return await route.continue_()
        answer: APIResponse = await route.fetch()
        return await route.fulfill(response=answer, body=json.dumps(change(await answer.json())))

    await app.page.route(f"{app.url}/**", altered)


def _bare(answer: Any) -> Any:
    """A task as some runtimes write it: no wrapper, no kind."""
    task = answer["result"]["task"]
    return answer | {"result": {key: value for key, value in task.items() if key != "kind"}}


async def test_the_answer_to_a_rewind_replaces_the_conversation_in_any_form(app: App) -> None:
    """B4, T7: a task in its wrapper, and also one without wrapper or kind."""
    await conversation(app, "A", "B", "C")
    await app.rewind(4)
    await app.shows("A", "A", "B", "B")
    await answers(app, BEFORE, _bare)
    await app.rewind(2)
    await app.shows("A", "A")
    await expect(app.alerts).to_have_count(0)
    await app.reload()
    await app.shows("A", "A")


async def test_a_repeated_message_is_shown_once_at_its_first_position(app: App) -> None:
    """B6, T6: the same id twice in one history, and again in a snapshot."""
    await conversation(app, "A", "B")
    before = await app.unique()

    def doubled(answer: Any) -> Any:
        data = answer["data"]
        return answer | {"data": data | {"messages": [*data["messages"], *reversed(data["messages"])]}}

    await answers(app, "/messages", doubled)
    await app.reload()
    await until(app.messages, lambda shown: shown == before)
    assert await app.unique() == before


async def test_an_unknown_event_is_shown_in_the_inspector_only(app: App) -> None:
    """B4, T7: the inspector counts and lists it."""

    async def surprise(route: Route, request: Request) -> None:
        if "SubscribeToTask" not in (request.post_data or ""):
            return await route.continue_()
        answer = await route.fetch()
        odd = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"surprise": {"text": "from the future"}}})
        return await route.fulfill(response=answer, body=f"data: {odd}\n\n" + await answer.text())

    await app.page.route(f"{app.url}/**", surprise)
    await app.open()
    await app.run("count 5 20")
    assert await app.counted(5) == [1, 2, 3, 4, 5]
    await expect(app.log).not_to_contain_text("from the future")
    await app.show("Events")
    await expect(app.details.locator("li[data-kind=unknown]").first).to_be_visible()


async def test_the_log_of_a_task_grows_in_the_inspector_over_short_connections(app: App, gate: Gate) -> None:
    """T7: after a silence longer than the connection the log continues at its cursor; the end of a connection is no
    error."""
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.url.endswith("/events"):
            asked.append(request.headers.get("last-event-id", ""))

    async def asked_again() -> bool:
        return len(asked) > 1

    app.page.on("request", note)
    await app.open()
    await app.send(f"after {gate.file} count 2 1")
    await app.running()
    await app.show("Events")
    shown = app.details.get_by_label("Shown events")
    log = await shown.locator("option", has_text="Log of: after").text_content()
    await shown.select_option(label=log)
    await until(asked_again)
    gate.open()
    await app.idle()
    listed = app.details.locator(".records li")
    await expect(app.details.locator(".gist").filter(has_text="completed")).to_have_count(1)
    numbers = await listed.evaluate_all("all => all.map((one) => Number(one.dataset.number)).sort((a, b) => a - b)")
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert asked[0] == "" and asked[1:] and all(asked[1:])
    async with app.page.expect_response(lambda response: response.url.endswith("/events") and response.status == 204):
        pass
    await app.page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done)))")
    await expect(app.details.get_by_role("alert")).to_have_count(0)


async def test_a_logged_message_is_copied_as_a_request_that_sends_it_again(app: App, http: httpx.AsyncClient) -> None:
    """T7: the first event of a task is copied as a send; an event of the agent as a read of the log."""
    await app.open()
    await app.run("echo hello")
    await app.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await app.article(0).get_by_role("button", name="Show events").click()
    await app.details.locator("li[data-kind=created] button").click()
    await app.details.get_by_role("button", name="Copy as curl").click()
    command = shlex.split(await app.page.evaluate("navigator.clipboard.readText()"))
    (address,) = [word for word in command if word.startswith("http")]
    answer = await http.post(address, json=json.loads(command[-1]), headers={"A2A-Version": "1.0"})
    assert answer.json()["result"]["task"]["contextId"] == app.session, (command, answer.text)
    await app.shows("echo hello", "hello", "echo hello", "hello")
    await app.details.get_by_label("Filter", exact=True).fill("")
    await app.details.locator("li[data-kind=status] button").last.click()
    await app.details.get_by_role("button", name="Copy as curl").click()
    assert "/events" in await app.page.evaluate("navigator.clipboard.readText()")


async def test_a_chosen_event_of_a_long_list_stays_in_view(app: App) -> None:
    """T7: with the focus, though the list then has less room."""
    await app.open()
    await app.run("count 120 1")
    await app.show("Events")
    events = app.details.locator(".records li")
    number = await events.evaluate_all("all => Math.max(...all.map((one) => Number(one.dataset.number)))") - 3
    chosen = app.details.locator(f".records li[data-number='{number}']")
    await chosen.get_by_role("button").click()
    await expect(app.details.get_by_role("heading", name=f"Event {number}")).to_be_visible()
    await expect(chosen).to_be_in_viewport()
    await expect(chosen.get_by_role("button")).to_be_focused()


@pytest.mark.parametrize(
    "text", ["> " * 600 + "deep", "> " * 3000 + "deep", "\n".join("  " * n + "- deep" for n in range(600))]
)
async def test_a_text_with_too_deep_markdown_is_shown_as_written(app: App, http: httpx.AsyncClient, text: str) -> None:
    """The rest of the session can be read and continued."""
    session = f"deep-{time.time_ns()}"
    said = {"kind": "message", "messageId": session, "contextId": session, "role": "agent"}
    task = {"id": f"{session}-t", "contextId": session, "kind": "task", "status": {"state": "completed"}}
    history = [said | {"parts": [{"kind": "text", "text": text}]}]
    made = await http.post("/api/sessions", json={"id": session, "name": "Deep", "agent_ref": "gated"})
    stored = await http.post("/api/tasks", json=task | {"history": history})
    assert made.status_code < 300 and stored.status_code < 300, stored.text
    await app.open_session(session)
    await expect(app.log).to_contain_text("deep")
    await app.run("and on")
    await expect(app.articles.last).to_contain_text("and on")
