"""Announcements to a screen reader: new content, once, in words."""

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.system.wire import result

pytestmark = pytest.mark.more

LISTEN = """() => {
    window.heard = [];
    const listen = (all) => {
        for (const { addedNodes } of all)
            for (const one of addedNodes)
                if (one.textContent && one.parentElement?.matches(".sr-only[role=status]"))
                    window.heard.push(one.textContent);
    };
    new MutationObserver(listen).observe(document, { subtree: true, childList: true });
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def listened(app: App) -> App:
    """A session with one turn; its announcements are recorded from now on."""
    await app.open()
    await app.run("hello")
    await app.page.evaluate(LISTEN)
    return app


async def _heard(app: App) -> list[str]:
    found: list[str] = await app.page.evaluate("window.heard")
    return found


async def _hears(app: App, *words: str) -> None:
    await until(lambda: _heard(app), lambda heard: heard == list(words))


async def test_equal_answers_are_each_announced_and_messages_restored_by_an_undo_are_not(listened: App) -> None:
    """B31: the rewind announces nothing either."""
    await listened.run("hello")
    await listened.run("hello")
    await _hears(listened, "Agent: hello", "Agent: hello")
    await listened.rewind(2)
    await listened.shows("hello", "hello")
    await listened.button("Undo rewind").click()
    await until(listened.messages, lambda shown: len(shown) == 6)
    await listened.run("last")
    await _hears(listened, "Agent: hello", "Agent: hello", "Agent: last")


async def test_a_question_is_announced_once(listened: App) -> None:
    """B16: not again when it has its answer."""
    await listened.send("ask What is your name?")
    # Announced as a question, or as a message if the message was loaded before the state of its task.
    (asked,) = await until(lambda: _heard(listened))
    assert asked.endswith(": What is your name?")
    await expect(listened.box).to_have_attribute("placeholder", "Your answer")
    await listened.send("Ann")
    await until(lambda: _heard(listened), lambda heard: heard == [asked, 'Agent: You said: "Ann"'])


async def test_artifacts_and_the_cancel_of_a_task_are_announced(
    listened: App, gate: Gate, http: httpx.AsyncClient
) -> None:
    """B14: also the cancel of another client. Marks of code and Markdown are left out."""
    await listened.send("slow 2")
    await until(lambda: _heard(listened), lambda heard: any(one.startswith("Artifact: ") for one in heard))
    await listened.idle()
    await listened.send(str(gate))
    await listened.counted(1)
    await result(http, "CancelTask", {"id": (await listened.messages())[-1].task})
    await until(lambda: _heard(listened), lambda heard: heard[-1].endswith("Canceled"))
    await listened.idle()
    await listened.run("code")
    said = await until(lambda: _heard(listened), lambda heard: "A text" in heard[-1])
    assert not set("#`*") & set(said[-1])
