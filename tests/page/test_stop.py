"""Stopping a task."""

import httpx
from playwright.async_api import Request, Route, expect
from tests.page.app import App, until
from tests.page.gated import Gate
from tests.system.wire import result


async def test_stop_cancels_the_task_and_shows_the_state_of_the_server(
    app: App, http: httpx.AsyncClient, gate: Gate
) -> None:
    """B14, P8, M4: one CancelTask is sent, the state is the server's, and no later event revives the task."""
    await app.open()
    await app.send(str(gate))
    await app.counted(3)
    await app.stop()
    await app.idle()
    (call,) = app.seen.calls("CancelTask")
    task = (await app.messages())[-1].task
    assert call.params["id"] == task
    assert (await result(http, "GetTask", {"id": task}))["status"]["state"] == "TASK_STATE_CANCELED"
    kept = await app.numbers()
    await app.has_states("canceled")
    await app.run("still here")
    await app.has_states("canceled", "completed")
    await app.reload()
    await app.has_states("canceled", "completed")
    texts = await app.texts()
    assert texts[-1] == "still here"
    assert [int(word) for word in texts[1].split() if word.isdigit()][: len(kept)] == kept


async def test_a_stop_that_comes_too_late_is_no_error(app: App, http: httpx.AsyncClient, gate: Gate) -> None:
    """B15, C11: the task completed first, and is shown as completed."""

    async def late(route: Route, request: Request) -> None:
        if "CancelTask" in (request.post_data or ""):
            gate.open()
            await until(ended)
        await route.continue_()

    async def ended() -> bool:
        found = (await http.get(f"/api/sessions/{app.session}/task-infos")).json()["data"]
        return bool(found) and found[-1]["state"] == "completed"

    await app.page.route(f"{app.url}/**", late)
    await app.open()
    await app.send(str(gate))
    await app.counted(3)
    await app.stop()
    await app.answered(2)
    await app.has_states("completed")
    task = await result(http, "GetTask", {"id": (await app.messages())[-1].task})
    assert " ".join(map(str, await app.numbers())) == task["status"]["message"]["parts"][0]["text"]
    await expect(app.alerts).to_have_count(0)
    assert len(app.seen.calls("CancelTask")) == 1
