"""Turns of the agent of a worker, as a client sees them over HTTP."""

import httpx
from tests.system.wire import Json, call, result, text_message, until


async def begun(http: httpx.AsyncClient, words: str) -> Json:
    """The task of a message, as soon as it exists."""
    params = {"message": text_message(words), "configuration": {"returnImmediately": True}}
    return dict((await result(http, "SendMessage", params))["task"])


async def begins_slowly(http: httpx.AsyncClient, count: int) -> Json:
    """A task that makes an artifact of this number of chunks, once the first exists."""
    task = await begun(http, f"slow {count}")

    async def shown() -> bool:
        return bool((await result(http, "GetTask", {"id": task["id"]})).get("artifacts"))

    await until(shown)
    return task


async def is_canceled(http: httpx.AsyncClient, task: Json) -> None:
    """Fails unless the cancel is the last event of the task."""
    canceled = await result(http, "CancelTask", {"id": task["id"]})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert "error" in await call(http, "CancelTask", {"id": task["id"]})


async def ends(http: httpx.AsyncClient, task: Json) -> Json:
    """The task once it has ended."""

    async def ended() -> Json | None:
        found = await result(http, "GetTask", {"id": task["id"]})
        over = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"}
        return found if found["status"]["state"] in over else None

    return dict(await until(ended, 30.0))


async def state(http: httpx.AsyncClient, task: Json) -> str:
    return str((await result(http, "GetTask", {"id": task["id"]}))["status"]["state"])
