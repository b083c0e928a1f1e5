"""The agent of a conversation, the agent of new ones, and the list of agents."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect
from tests.page.app import App
from tests.page.gated import AGENT, Gated
from tests.system.plane import STEADY, Plane, running

if TYPE_CHECKING:
    from taskplane.agents.agent import AgentCard

# The first one has the title of the demo agent, which `dev` also serves.
FIRST: Final = "demo (gated)"
BILLING: Final = "Billing helper"


class Billing(Gated):
    """The same agent under another name."""

    def __init__(self) -> None:
        super().__init__()
        card: AgentCard = self.card
        card.name, card.description = BILLING, "Answers questions about bills."


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def several(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane with two agents and the demo agent."""
    agents = f"{AGENT},billing=tests.page.test_agents:Billing"
    settings = {**STEADY, "TASKPLANE_EXECUTOR_AGENTS": agents}
    async with running("one", tmp_path_factory.mktemp("several"), settings) as started:
        yield started


@pytest.fixture
def plane(several: Plane) -> Plane:
    """The plane of these tests."""
    return several


def chooser(app: App) -> Locator:
    return app.sessions.get_by_role("combobox", name="Agent of new chats")


async def named(app: App, agent: str) -> None:
    """Waits until the head of the conversation names this agent."""
    link = app.page.locator("main header").get_by_role("link", name=f"Agent: {agent}", exact=True)
    await expect(link).to_have_text(agent)


async def agent_of(http: httpx.AsyncClient, session: str) -> str:
    found: str = (await http.get(f"/api/sessions/{session}")).json()["data"]["session"]["agent"]
    return found


async def test_the_head_and_the_list_name_the_agent(app: App) -> None:
    """Of a new conversation, of an open one, and of each in the list, also after a reload."""
    await app.open()
    await named(app, FIRST)
    await app.run("first words")
    await chooser(app).select_option("billing")
    await app.new_chat()
    await named(app, BILLING)
    await app.run("second words")
    for _ in range(2):
        await named(app, BILLING)
        await expect(app.row("second words")).to_contain_text(BILLING)
        await expect(app.row("first words")).to_contain_text(FIRST)
        await app.reload()
    await app.row("first words").click()
    await named(app, FIRST)


async def test_the_head_of_a_conversation_with_a_gone_agent_names_the_agent_as_not_served(
    app: App, http: httpx.AsyncClient
) -> None:
    """Also in an empty conversation. The name leads to a page without a button that begins a chat."""
    app.seen.allow("status of 404")
    made = await http.post("/api/sessions", json={"name": "old times", "agent_ref": "renamed"})
    assert made.status_code == 201, made.text
    await app.open()
    await expect(app.row("old times")).to_contain_text("renamed")
    await app.row("old times").click()
    await named(app, "renamed, not served here")
    await expect(app.page.get_by_role("heading", name="renamed is not served here")).to_be_visible()
    await app.page.locator("main header").get_by_role("link", name=re.compile("^Agent: ")).click()
    await expect(app.page.get_by_role("heading", name="There is no agent renamed.")).to_be_visible()
    await expect(app.button("Start a chat")).to_have_count(0)


async def test_the_chosen_agent_is_used_for_new_chats_only(app: App, http: httpx.AsyncClient) -> None:
    """The open conversation keeps its agent, and its messages go to that agent."""
    await app.open()
    await expect(app.sessions.get_by_text("Agent of new chats")).to_be_visible()
    await app.run("of the first")
    first = await app.in_session()
    await chooser(app).select_option("billing")
    await named(app, FIRST)
    await expect(app.box).to_have_attribute("placeholder", f"Message {FIRST}")
    await app.run("again")
    assert app.session == first
    tasks = (await http.get(f"/api/sessions/{first}/task-infos")).json()["data"]
    assert [task["agent"] for task in tasks] == ["gated", "gated"]
    begin = app.button("New chat").first
    await expect(begin).to_have_attribute("title", f"New chat with {BILLING}")
    await begin.click()
    await named(app, BILLING)
    await expect(app.box).to_have_attribute("placeholder", f"Message {BILLING}")
    await app.run("of the second")
    assert await agent_of(http, await app.in_session()) == "billing"


async def test_the_chosen_agent_is_kept_over_a_reload(app: App, http: httpx.AsyncClient) -> None:
    """A draft for one agent is not sent to another one."""
    await app.open()
    await chooser(app).select_option("billing")
    await named(app, BILLING)
    await app.box.fill("for billing")
    await app.reload()
    await expect(chooser(app)).to_have_value("billing")
    await named(app, BILLING)
    await app.box.press("Enter")
    await app.answered(2)
    assert await agent_of(http, await app.in_session()) == "billing"


async def test_a_first_message_in_flight_keeps_its_agent(app: App, http: httpx.AsyncClient) -> None:
    """Another choice is for the next new conversation."""
    await app.open()
    held = await app.hold("on its way")
    await app.box.fill("on its way")
    async with app.page.expect_request(lambda request: "on its way" in (request.post_data or "")):
        await app.box.press("Enter")
    await chooser(app).select_option("billing")
    await named(app, FIRST)
    held.set()
    await app.answered(2)
    assert await agent_of(http, await app.in_session()) == "gated"
    await app.new_chat()
    await named(app, BILLING)


async def test_the_agents_are_listed_at_their_own_address(app: App, http: httpx.AsyncClient) -> None:
    """With name, description and skills. Each entry leads to the card and to a new conversation."""
    await app.open("/ui")
    await app.sessions.get_by_role("link", name="Agents").click()
    for again in (False, True):
        if again:
            await app.page.reload()
        await expect(app.page).to_have_url(re.compile("/ui/agents$"))
        listed = app.page.locator("main li[data-agent]")
        await expect(listed).to_have_count(3)
        await expect(listed.nth(0)).to_contain_text("default")
        await expect(listed.nth(1)).to_contain_text("Answers questions about bills.")
        await expect(listed.nth(1)).to_contain_text(Gated().card.skills[0].name)
    await listed.nth(1).get_by_role("link", name=BILLING).click()
    await expect(app.page).to_have_url(re.compile("/ui/agents/billing$"))
    await app.page.go_back()
    await app.button(f"Start a chat with {BILLING}").click()
    await named(app, BILLING)
    await app.run("hello")
    assert await agent_of(http, await app.in_session()) == "billing"
    await app.log.focus()
    await app.page.keyboard.press("g")
    await app.page.keyboard.press("a")
    await expect(app.page.get_by_role("heading", name="Agents")).to_be_visible()


async def test_a_single_agent_is_not_offered_as_a_choice(
    tmp_path: Path, another: Callable[..., Awaitable[App]]
) -> None:
    """The head names the agent."""
    async with running("one", tmp_path, {**STEADY, "TASKPLANE_EXECUTOR_AGENTS": "demo"}) as alone:
        app = await another()
        app.url = alone.url
        await app.open()
        await named(app, "demo")
        await expect(app.button("New chat").first).to_have_attribute("title", "New chat with demo")
        await expect(chooser(app)).to_have_count(0)
        # Before the plane ends, because the page follows the shown session.
        await app.page.close()
