"""Cancels of the llm agent at moments that nobody chose."""

import asyncio
import random

from tests.executor.llm.turns import by_stage, opened
from tests.executor.plane import Stores, until
from tests.support.scripted_model import After, Answer, CallPiece, Delta, Request, Step, calls, text
from tests.support.thorough import THOROUGH

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Refused

TIMES = 100 if THOROUGH else 12
LONGEST = 0.6


def slowly(steps: list[Step]) -> list[Step]:
    """The same, with a pause before each piece."""
    return [
        each for step in steps for each in ([After(0.01), step] if isinstance(step, (Delta, CallPiece)) else [step])
    ]


async def test_whenever_a_task_is_canceled_the_connections_to_its_model_are_closed(stores: Stores) -> None:
    """P8: in a direct answer, before a task, in a tool, in an artifact, and between; nothing follows the cancel."""
    report = {"name": "n", "description": "d", "content": "0123456789" * 10}

    async def think() -> str:
        """Think."""
        await asyncio.sleep(0.05)
        return "thought"

    def work(request: Request) -> Answer:
        done = [role for role, _ in request.said].count("tool")
        return slowly([calls(("think", {})), calls(("createArtifact", report)), text(*["It", "is", "done."])][done - 1])

    def route(request: Request) -> Answer:
        return slowly(text(*"0123456789") if "answer" in request.said[-1][1] else calls(("createTask", {})))

    seed = random.randrange(1_000_000)
    chosen = random.Random(seed)
    script = by_stage(route=route, work=work, status=text("Thinking"))
    async with opened(stores, script, status_interval=0.05, tools=[think], direct_within=0.02) as (plane, server):
        for number in range(TIMES):
            reference = await plane.submit(chosen.choice(["answer", "write"]))
            await asyncio.sleep(chosen.uniform(0, LONGEST))
            try:
                await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=reference.task.task_id))
            except Refused as refused:
                assert refused.reason == "TERMINAL"
                continue
            task = await plane.at_rest(reference)
            assert task.status.state == a2a.TASK_STATE_CANCELED, (seed, number)
            await until(lambda: all(each.answered or each.closed.is_set() for each in server.requests))
            last = (await plane.events(task.id))[-1]
            assert last.event.status_update.status.state == a2a.TASK_STATE_CANCELED, (seed, number)
