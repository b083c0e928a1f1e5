"""Rewinding a session, and undoing it."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx
from playwright.async_api import Request, Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.page.marks import on_both
from tests.system.wire import Json

INVOCATION = "kagent_invocation_id"
BEFORE = "kagent_rewind_before_invocation_id"


async def conversation(app: App, *texts: str) -> None:
    """Sends these in a new session."""
    await app.open()
    for text in texts:
        await app.run(text)
    await app.shows(*(text for text in texts for _ in range(2)))


@on_both
async def test_after_a_rewind_nothing_cut_comes_back(app: App) -> None:
    """B3, R5, R11: of A, B and C only A stays, also after a reload, and a further message repeats nothing."""
    await conversation(app, "A", "B", "C")
    await app.rewind(2)
    await app.shows("A", "A")
    await expect(app.box).to_have_value("B")
    await app.reload()
    await app.shows("A", "A")
    await app.box.fill("")
    await app.run("D")
    await app.shows("A", "A", "D", "D")
    await app.unique()
    await app.reload()
    await app.shows("A", "A", "D", "D")
    await app.has_states("completed", "completed")


async def test_a_rewound_text_can_be_edited_and_sent_again(app: App) -> None:
    """B3, R11: the text goes back into the box, and the edited one replaces it."""
    await conversation(app, "A", "B")
    await app.rewind(2)
    await app.shows("A", "A")
    await expect(app.box).to_have_value("B")
    await expect(app.box).to_be_focused()
    await app.page.keyboard.type(" again")
    await app.page.keyboard.press("Enter")
    await app.answered(4)
    await app.shows("A", "A", "B again", "B again")


@on_both
async def test_the_first_answer_can_be_rewound(app: App) -> None:
    """R3, R11: with its question, which goes to the box; the first message itself has no turn before it."""
    await conversation(app, "A", "B")
    before = await app.unique()
    await expect(app.rewind_button(0)).to_have_count(0)
    await app.rewind(1)
    await app.shows()
    await expect(app.box).to_have_value("A")
    await app.reload()
    await app.shows()
    await app.button("Undo rewind").click()
    await until(app.messages, lambda shown: shown == before)
    await app.rewind(1)
    await expect(app.box).to_have_value("A")
    await app.page.keyboard.type(" again")
    await app.page.keyboard.press("Enter")
    await app.answered(2)
    await app.shows("A again", "A again")


async def test_a_rewind_of_all_turns_leaves_an_empty_chat(app: App, http: httpx.AsyncClient) -> None:
    """B3, R3: another client cuts the first turn."""
    await conversation(app, "A", "B")
    found = (await http.get(f"/api/sessions/{app.session}/messages")).json()["data"]["messages"]
    before = found[0]["metadata"][INVOCATION]
    answer = await http.post(f"/api/sessions/{app.session}/rewind", json={"before": before})
    assert answer.status_code == 200, answer.text
    await app.shows()
    await app.reload()
    await app.shows()
    await app.run("C")
    await app.shows("C", "C")


@on_both
async def test_a_rewind_during_a_stream_cancels_the_run(app: App, http: httpx.AsyncClient, gate: Gate) -> None:
    """B19, R4, R11: the turn is cut at once, its run is canceled, and later events of the run are not shown."""
    await conversation(app, "A")
    await app.send(str(gate))
    await app.counted(3)
    task = (await app.messages())[-1].task
    await app.page.evaluate(
        """task => {
            window.again = 0;
            new MutationObserver(() => {
                if (!document.querySelector(`article[data-task-id="${task}"]`)) window.cut = true;
                else if (window.cut) window.again++;
            }).observe(document.querySelector("[role=log]"), { childList: true, subtree: true, characterData: true });
        }""",
        task,
    )
    await app.rewind(2)
    await app.shows("A", "A")
    found = await until(lambda: _task(http, task), lambda found: found["status"]["state"] == "canceled")
    assert found["contextId"] == app.session
    await app.idle()
    await expect(app.box).to_have_value(str(gate))
    await app.run("B")
    assert await app.page.evaluate("[window.cut, window.again]") == [True, 0]
    await app.reload()
    await app.shows("A", "A", "B", "B")


async def test_a_failed_rewind_restores_everything_and_shows_an_error(app: App) -> None:
    """B20, R9, R11: the list is exactly as before."""

    async def to_nowhere(route: Route, request: Request) -> None:
        body = json.loads(request.post_data or "{}")
        metadata = body.get("params", {}).get("message", {}).get("metadata", {})
        if BEFORE in metadata:
            metadata[BEFORE] = "no-such-turn"
            return await route.continue_(post_data=json.dumps(body))
        return await route.continue_()

    await conversation(app, "A", "B", "C")
    before = await app.messages()
    await app.page.route(f"{app.url}/**", to_nowhere)
    await app.rewind(2)
    await expect(app.alerts.first).to_be_visible()
    await until(app.messages, lambda shown: shown == before)
    await expect(app.box).to_have_value("")
    await app.has_states("completed", "completed", "completed")


async def test_a_double_click_rewinds_once_and_other_tabs_follow(
    app: App, another: Callable[..., Awaitable[App]]
) -> None:
    """B21, R2: one request. Other tabs and another browser show the cut conversation."""
    await conversation(app, "A", "B", "C")
    beside = await (await another(beside=app)).open_session(app.session)
    elsewhere = await (await another()).open_session(app.session)
    for tab in (beside, elsewhere):
        await tab.shows("A", "A", "B", "B", "C", "C")
    await app.rewind_button(4).dblclick()
    for tab in (app, beside, elsewhere):
        await tab.shows("A", "A", "B", "B")
    await beside.rewind(2)
    for tab in (app, beside, elsewhere):
        await tab.shows("A", "A")
    rewinds = [call for call in app.seen.calls() if BEFORE in call.params.get("message", {}).get("metadata", {})]
    assert len(rewinds) == 2
    for tab in (app, beside, elsewhere):
        assert await tab.alerts.all_text_contents() == []


@on_both
async def test_a_rewind_can_be_undone_until_the_next_message(app: App) -> None:
    """B22, R8: the history is back; a reload shows the server's state, before and after."""
    await conversation(app, "A", "B", "C")
    before = await app.unique()
    await app.box.fill("half written")
    await app.rewind(2)
    await app.shows("A", "A")
    await expect(app.box).to_have_value("B\n\nhalf written")
    await app.button("Undo rewind").click()
    await until(app.messages, lambda shown: shown == before)
    await expect(app.box).to_have_value("half written")
    await app.reload()
    await until(app.messages, lambda shown: shown == before)
    await app.has_states("completed", "completed", "completed")
    await app.box.fill("")
    await app.rewind(4)
    await app.shows("A", "A", "B", "B")
    await expect(app.box).to_have_value("C")
    await app.run("D")
    await expect(app.button("Undo rewind")).to_have_count(0)
    await app.shows("A", "A", "B", "B", "D", "D")


async def test_a_rewind_of_an_answer_shows_that_the_task_is_over(app: App) -> None:
    """B22: until the next message, also after a reload. A rewind of a whole task does not show this."""
    strip = app.page.get_by_role("status").filter(has_text="was rewound")
    await conversation(app, "A")
    await app.send("ask which one?")
    await expect(app.page.get_by_role("heading", name="The agent asks")).to_be_visible()
    await app.send("that one")
    await app.answered(6)
    await app.rewind(4)
    await expect(strip).to_contain_text("is over")
    await app.reload()
    await expect(strip).to_contain_text("is over")
    await app.button("Undo rewind").click()
    await app.answered(6)
    await app.rewind(2)
    await app.shows("A", "A")
    await expect(strip).not_to_contain_text("is over")


async def _task(http: httpx.AsyncClient, task: str) -> Json:
    found: Json = (await http.get(f"/api/tasks/{task}")).json()["data"]
    return found


async def test_a_rewind_gives_its_text_back_before_the_session_is_reloaded(app: App) -> None:
    """R11: a text sent meanwhile leaves the box, and the cut text does not return a second time."""
    await conversation(app, "A", "B")
    reads = asyncio.Event()

    async def wait(route: Route) -> None:
        await reads.wait()
        await route.continue_()

    await app.page.route(f"**/api/sessions/{app.session}?limit=1", wait)
    await app.rewind(2)
    await expect(app.box).to_have_value("B")
    await app.box.fill("C")
    await app.box.press("Enter")
    await expect(app.articles).to_have_count(3)
    reads.set()
    await app.shows("A", "A", "C", "C")
    await expect(app.box).to_have_value("")


async def test_a_text_sent_during_a_rewind_is_not_in_the_box_afterwards(app: App) -> None:
    """R11: the cut text is."""
    await conversation(app, "A", "B")
    released = await app.hold(BEFORE)
    await app.rewind(2)
    await app.shows("A", "A")
    await app.box.fill("C")
    await app.box.press("Enter")
    await expect(app.articles).to_have_count(3)
    released.set()
    await app.shows("A", "A", "C", "C")
    await expect(app.box).to_have_value("B")


async def test_a_failed_message_stays_when_a_turn_before_it_is_rewound(app: App) -> None:
    """R11, C10: with its *Retry*."""
    app.seen.allow(r"net::ERR_FAILED")
    await conversation(app, "A", "B")
    await app.page.route(
        "**/*", lambda route: route.abort() if "failed" in (route.request.post_data or "") else route.continue_()
    )
    await app.box.fill("failed")
    await app.box.press("Enter")
    await expect(app.button("Retry")).to_be_visible()
    await app.rewind(2)
    await app.shows("A", "A", "failed")
    await app.page.unroute_all(behavior="wait")
    await app.button("Retry").click()
    await app.shows("A", "A", "failed", "failed")
