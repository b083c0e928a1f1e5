"""Tasks that wait for the user."""

import json
from typing import Any

import httpx
import pytest
from playwright.async_api import expect
from tests.page.app import App, until

from taskplane.agents.demo import PASSWORD

pytestmark = pytest.mark.more

MAIL = {"to": "ann@example.org", "subject": "Hello"}
QUESTIONS: dict[str, Any] = {
    "langchain": {"action_requests": [{"name": "send_mail", "args": MAIL, "description": "Please review"}]},
    "inbox": [{"action_request": {"action": "send_mail", "args": MAIL}, "config": {}, "description": "Please review"}],
    "plain": {"question": "Please review", "action": "send_mail", "arguments": MAIL},
}
GUESS = "a wrong s3cret"


async def test_an_answer_continues_the_task_and_the_next_message_begins_another(app: App) -> None:
    """B16, I1, I5, I6: the answer has the id of the task, the next message has none and a reference."""
    await app.open()
    await app.send("ask What is your name?")
    await expect(app.log).to_contain_text("What is your name?")
    await app.has_states("input-required")
    await app.send("Ann")
    await expect(app.log).to_contain_text('You said: "Ann"')
    await app.has_states("completed")
    await app.run("and now")
    await app.has_states("completed", "completed")
    asked, answered, followed = app.seen.messages()
    task = answered["taskId"]
    assert task and not asked.get("taskId") and not followed.get("taskId")
    assert followed["referenceTaskIds"] == [task]
    assert (await app.unique())[0].task in ("", task)
    texts = await app.texts()
    assert texts.count("What is your name?") == 1


async def test_a_question_is_shown_again_after_a_reload(app: App) -> None:
    """B16, I6: one box takes the answer, which has the task id of the question."""
    await app.open()
    await app.send("ask Which colour?")
    await expect(app.log).to_contain_text("Which colour?")
    await app.in_session()
    await app.reload()
    await expect(app.log).to_contain_text("Which colour?")
    await expect(app.box).to_have_attribute("placeholder", "Your answer")
    await expect(app.log.get_by_role("textbox")).to_have_count(0)
    await app.send("green")
    await expect(app.log).to_contain_text('You said: "green"')
    assert app.seen.calls("SendMessage")[-1].message["taskId"]
    await app.has_states("completed")


@pytest.mark.parametrize("shape", QUESTIONS)
async def test_a_data_question_shows_action_arguments_and_description_and_then_the_whole_data(
    app: App, shape: str
) -> None:
    """I1: the question has no text, also after a reload. The answer continues the task."""
    await app.open()
    await app.send(f"data {json.dumps(QUESTIONS[shape])}")
    for reload in (False, True):
        if reload:
            await app.in_session()
            await app.reload()
        box = app.page.get_by_role("region", name="The agent asks")
        asked = box.locator(".asked")
        await expect(asked).to_contain_text("Please review")
        await expect(asked.locator("code")).to_have_text("send_mail")
        assert json.loads(await asked.locator("pre").inner_text()) == MAIL
        await expect(box.locator("details pre")).to_be_visible()
        assert json.loads(await box.locator("details pre").inner_text()) in (
            QUESTIONS[shape],
            {"value": QUESTIONS[shape]},
        )
    await app.send("yes")
    await app.has_states("completed")
    await expect(app.log.locator("details.tools summary")).to_have_text(["send_mail"])


async def test_a_rejected_task_is_shown_as_rejected(app: App) -> None:
    """B15, M2: also after a reload, where the session has five states only."""
    await app.open()
    await app.send("reject not today")
    await expect(app.log).to_contain_text("Rejected")
    await app.run("hello")
    await app.reload()
    await app.has_states("rejected", "completed")
    await expect(app.log).to_contain_text("Rejected")


async def test_an_unsent_credential_is_no_draft(app: App) -> None:
    """B17, I1: neither after it is discarded nor after its session is left."""
    app.seen.allow(r"net::ERR_FAILED")
    await app.open()
    await app.send("auth")
    field = app.page.get_by_label("Credential", exact=True)
    await expect(field).to_be_visible()
    for discarded in (True, False):
        await app.page.route("**/agents/**", lambda route: route.abort())
        await field.fill(PASSWORD)
        await field.press("Enter")
        await expect(app.button("Discard").first).to_be_visible()
        await app.page.unroute_all(behavior="wait")
        await (app.button("Discard").first.click() if discarded else app.new_chat())
        await expect(app.button("Discard")).to_have_count(0)
        await expect(app.box).to_have_value("")
    await app.row("auth").click()
    await expect(field).to_be_visible()
    await expect(app.box).to_have_value("")


async def test_a_credential_resumes_its_task_and_is_stored_nowhere(app: App, http: httpx.AsyncClient) -> None:
    """B17, I1: a wrong one is refused beside the field; the right one continues the same task."""
    await app.open()
    await app.send("auth")
    field = app.page.get_by_label("Credential", exact=True)
    await expect(field).to_be_visible()
    assert await field.get_attribute("type") == "password"
    await field.fill(GUESS)
    await field.press("Enter")
    await expect(app.log).to_contain_text("not accepted")
    await app.show("Events")
    await app.kept_nowhere(GUESS)
    await expect(field).to_have_value("")
    await field.fill(PASSWORD)
    await field.press("Enter")
    await expect(app.log).to_contain_text("You are signed in.")
    await app.has_states("completed")
    sends = app.seen.messages()
    assert len({send["taskId"] for send in sends[1:]}) == 1
    await app.kept_nowhere(GUESS)
    await app.reload()
    await until(app.messages)
    await app.show("Events")
    await app.kept_nowhere(GUESS)
    log = (await http.get(f"/api/tasks/{sends[1]['taskId']}/events")).text
    assert GUESS not in log
