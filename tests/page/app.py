"""The page as its users know it: elements by their roles and names."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import httpx
from playwright.async_api import Locator, Page, Request, Route, expect
from tests.page.seen import Seen
from tests.system.wire import send

T = TypeVar("T")

PATIENCE: Final = 20.0
expect.set_options(timeout=PATIENCE * 1000)


@dataclass(frozen=True)
class Shown:
    """A message on the page."""

    id: str
    role: str
    task: str
    text: str


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool] = bool, timeout: float = PATIENCE) -> T:
    """Returns the result of `look` once it holds. AssertionError: the last result, if none ever holds."""
    found: T | None = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                found = await look()
                if holds(found):
                    return found
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"never was: {found!r}") from None


class App:
    """One tab."""

    def __init__(self, page: Page, url: str, seen: Seen) -> None:
        self.page = page
        self.url = url
        self.seen = seen
        self.log = page.get_by_role("log")
        self.articles = self.log.locator("article[data-message-id]")
        self.details = page.get_by_role("region", name="Details")
        self.sessions = page.get_by_role("region", name="Sessions")
        self.box = page.get_by_role("textbox", name="Message", exact=True)
        self.alerts = page.locator("[role=alert][data-code]")
        self.progress = page.locator("[data-progress]")

    # Location

    async def open(self, path: str = "/ui") -> "App":
        """Loads a path, and returns when the box accepts text."""
        await self.page.goto(f"{self.url}{path}")
        await expect(self.box).to_be_visible()
        return self

    async def open_session(self, session: str, query: str = "") -> "App":
        return await self.open(f"/ui/sessions/{session}{query}")

    async def reload(self) -> None:
        await self.page.reload()
        await expect(self.box).to_be_visible()

    @property
    def session(self) -> str:
        """The session of the address; empty in a new chat."""
        match = re.search(r"/ui/sessions/([^/?#]+)", self.page.url)
        return match.group(1) if match else ""

    async def in_session(self) -> str:
        """The session, once the address has it."""

        async def named() -> str:
            return self.session

        return await until(named)

    async def hold(self, part: str) -> asyncio.Event:
        """Hold requests with `part` in the body, until the event is set."""
        released = asyncio.Event()

        async def wait(route: Route, request: Request) -> None:
            if part in (request.post_data or ""):
                await released.wait()
            await route.continue_()

        await self.page.route(f"{self.url}/**", wait)
        return released

    async def lose(self, path: str, part: str = "", times: int = 1_000) -> None:
        """Let requests with `part` in the body reach the server, and lose the given number of their answers."""
        self.seen.allow(r"net::ERR_FAILED")
        left = times

        async def lose(route: Route, request: Request) -> None:
            nonlocal left
            if part in (request.post_data or "") and left:
                left -= 1
                await route.fetch()
                await route.abort()
            else:
                await route.continue_()

        await self.page.route(f"{self.url}{path}", lose)

    async def new_chat(self) -> None:
        await self.button("New chat").first.click()
        await expect(self.articles).to_have_count(0)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    # Talking

    async def send(self, text: str) -> None:
        """Types and sends, and returns when the box is empty."""
        await self.box.fill(text)
        await self.box.press("Enter")
        await expect(self.box).to_have_value("")

    async def run(self, text: str) -> None:
        """Sends, and waits until no run is left and there is an answer."""
        before = len(await self.messages())
        await self.send(text)
        await self.answered(before + 2)

    async def answered(self, count: int) -> None:
        """Waits for this number of messages, the last one of the agent, and for the end of the run."""
        await until(self.messages, lambda shown: len(shown) >= count and shown[-1].role == "agent")
        await self.idle()

    async def idle(self) -> None:
        """Waits for the end of the run."""
        await expect(self.page.get_by_role("button", name=re.compile("^Stop"))).to_have_count(0)

    async def running(self) -> None:
        await expect(self.button("Stop")).to_be_visible()

    # Shown elements

    async def messages(self) -> list[Shown]:
        """The shown messages, from top to bottom."""
        rows: list[list[str]] = await self.articles.evaluate_all(
            """all => all.map(one => {
                const text = one.cloneNode(true);
                text.querySelectorAll("footer, button, .aside, [role=alert]").forEach((other) => other.remove());
                return [one.dataset.messageId, one.dataset.role, one.dataset.taskId ?? "", text.textContent];
            })"""
        )
        return [Shown(*row) for row in rows]

    async def texts(self) -> list[str]:
        return [shown.text.strip() for shown in await self.messages()]

    async def shows(self, *texts: str) -> None:
        """Waits until the messages are exactly these."""
        await until(self.texts, lambda found: found == list(texts))

    async def unique(self) -> list[Shown]:
        """The messages. All have ids, and no two have the same id."""
        shown = await self.messages()
        ids = [one.id for one in shown]
        assert all(ids) and len(set(ids)) == len(ids), ids
        return shown

    def article(self, index: int) -> Locator:
        return self.articles.nth(index)

    async def numbers(self) -> list[int]:
        """The numbers that the last message of the agent counts."""
        said = [shown.text for shown in await self.messages() if shown.role == "agent"]
        return [int(word) for word in re.findall(r"\d+", said[-1])] if said else []

    async def counted_up(self) -> list[int]:
        """The numbers, once there are more than now."""
        return await self.counted(len(await self.numbers()) + 1)

    async def counted(self, at_least: int) -> list[int]:
        """The numbers, once there are this many; each occurs once, in order."""
        found = await until(self.numbers, lambda numbers: len(numbers) >= at_least)
        assert found == list(range(1, len(found) + 1))
        return found

    # Actions

    async def rewind(self, index: int) -> None:
        """Rewinds to before the message of this index."""
        await self.rewind_button(index).click()

    def rewind_button(self, index: int) -> Locator:
        return self.article(index).get_by_role("button", name="Rewind to here")

    async def stop(self) -> None:
        await self.button("Stop").click()

    async def show(self, panel: str) -> Locator:
        """Opens a panel: `Tasks`, `Artifacts` or `Events`."""
        chosen = self.button(panel).first
        if await chosen.get_attribute("aria-pressed") != "true":
            await chosen.click()
        await expect(self.details).to_be_visible()
        return self.details

    async def states(self) -> list[str]:
        """The states in the open timeline, oldest first."""
        found: list[str] = await self.details.locator("li[data-task-id]").evaluate_all(
            "all => all.map(one => one.dataset.state)"
        )
        return found

    async def has_states(self, *states: str) -> None:
        """Opens the timeline and waits until it has these states."""
        await self.show("Tasks")
        await until(self.states, lambda found: found == list(states))

    def banner(self, name: str) -> Locator:
        return self.page.locator(f"[role=status][data-banner={name}]")

    def row(self, title: str) -> Locator:
        """The session with this title in the list."""
        return self.sessions.get_by_role("link", name=title)

    async def kept_nowhere(self, secret: str) -> None:
        """Fails if a secret is in the document, the address or the storage of the page."""
        found: str = await self.page.evaluate(
            """() => [document.documentElement.outerHTML, location.href, document.cookie,
                JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage })].join("\\n")"""
        )
        assert secret not in found

    async def send_from_elsewhere(self, http: httpx.AsyncClient, session: str, text: str) -> None:
        """Sends as another client, and returns when the task has ended."""
        await send(http, text, contextId=session)
