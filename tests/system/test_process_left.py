"""Agents in processes of their own, after a kill of their executor."""

import json
from pathlib import Path

import pytest
from tests.executor.test_processes import lives
from tests.system.plane import running
from tests.system.wire import client, result, send, texts_of, until

pytestmark = pytest.mark.more

ARGUMENTS = ("--agent", "tests.executor.isolated:Hostile@process")


@pytest.mark.parametrize("message", ["wait", "block"])
async def test_no_process_of_a_killed_executor_stays(tmp_path: Path, message: str) -> None:
    """C8: neither its agent, also while blocked, nor the processes that the agent has started."""
    async with running("one", tmp_path, None, *ARGUMENTS) as plane, client(plane.url) as http:
        task = (await send(http, message, configuration={"returnImmediately": True}))["task"]

        async def said() -> list[int]:
            texts = texts_of(await result(http, "GetTask", {"id": task["id"]}))
            return [number for text in texts if text.startswith("[") for number in json.loads(text)]

        started = await until(said)
        assert len(started) == 4 and all(map(lives, started))
        await plane.kill("dev")

        async def gone() -> bool:
            return not any(map(lives, started))

        await until(gone)
