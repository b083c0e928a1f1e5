"""A turn that waits for an agent without a process."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.async_api import expect
from tests.page.app import App
from tests.page.seen import Seen
from tests.system.plane import STEADY, running

from taskplane.worker import Worker

if TYPE_CHECKING:
    from playwright.async_api import Browser


def echo(text: str) -> str:
    return f"You said: {text}"


async def test_a_turn_of_an_agent_without_a_process_shows_the_reason_until_a_worker_comes(
    browser: "Browser", tmp_path: Path
) -> None:
    """V4: on the turn and in the view of operators, with a suggestion, also after a reload. Then only the answer is
    shown."""
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"name": "Far", "description": "d", "version": "1", "skills": []}))
    settings = {**STEADY, "TASKPLANE_EXECUTOR_AGENTS": f"far=worker:{card}"}
    async with running("one", tmp_path, settings) as plane:
        context = await browser.new_context()
        seen = Seen()
        seen.watch(context)
        app = App(await context.new_page(), plane.url, seen)
        told = app.page.locator("[data-waiting=AGENT_UNSERVED]")
        await app.open()
        await app.send("hello")
        await expect(told).to_contain_text("No living process runs the agent far, so this task waits in the queue.")
        await expect(told).to_contain_text("taskplane worker --agent far=MODULE:ATTRIBUTE")
        await app.in_session()
        await app.reload()
        await expect(told).to_be_visible()
        operator = App(await context.new_page(), plane.url, seen)
        await operator.page.goto(f"{plane.url}/ui/ops")
        await expect(operator.page.locator("[data-warning=AGENT_UNSERVED]")).to_contain_text("1 task of agent far")
        await operator.page.goto(f"{plane.url}/ui/ops?view=tasks")
        await operator.page.get_by_role("rowheader").get_by_role("link", name="hello").click()
        await expect(operator.page.locator("[data-waiting=AGENT_UNSERVED]")).to_contain_text("No living process runs")
        stop = asyncio.Event()
        worker = Worker(echo, name="far", tasks=plane.tasks_target, sessions=plane.sessions_target, ops_listen="")
        serve = asyncio.create_task(worker.serve(stop))
        await expect(app.log).to_contain_text("You said: hello")
        await expect(app.page.locator("[data-waiting]")).to_have_count(0)
        await app.has_states("completed")
        stop.set()
        await serve
        await context.close()
    assert seen.unexpected() == []
