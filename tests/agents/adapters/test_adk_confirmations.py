"""Confirmations that ADK asks for before it calls a tool."""

import pytest
from tests.agents.adapters.adk_agents import obedient
from tests.executor.plane import Stores, open_plane, text

from taskplane.agents.adapters import adapt
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

C = "c"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"approved": True}, "'paid': '5'"),
        ({"confirmed": True}, "'paid': '5'"),
        (True, "'paid': '5'"),
        ({"approved": False}, "This tool call is rejected"),
        ("no", "This tool call is rejected"),
    ],
)
async def test_a_confirmation_accepts_any_clear_answer(stores: Stores, answer: object, outcome: str) -> None:
    """I1: a text, and data in the library's own form or in another one."""
    agent, _ = obedient()
    async with open_plane(stores, ("adk", adapt(agent, "adk"))) as plane:
        task = await plane.run("pay amount=5", context_id=C)
        part = a2a.Part(text=answer) if isinstance(answer, str) else a2a.Part(data=value_of(answer))
        await plane.submit("", task_id=task.id, context_id=C, parts=[part])
        task = await plane.reaches(task.id, a2a.TASK_STATE_COMPLETED)
        assert outcome in text(task.status.message)


async def test_an_unclear_answer_to_a_confirmation_asks_the_same_question_again(stores: Stores) -> None:
    """I1: the tool is neither called nor denied, and a later clear answer is accepted."""
    agent, model = obedient()
    async with open_plane(stores, ("adk", adapt(agent, "adk"))) as plane:
        task = await plane.run("pay amount=5", context_id=C)
        question, calls = text(task.status.message), len(model.seen)
        unclear: list[a2a.Part] = [
            a2a.Part(text="ok, but not the whole amount"),
            a2a.Part(data=value_of({"approved": True, "amount": 3})),
            a2a.Part(data=value_of({"answer": "perhaps"})),
        ]
        for part in unclear:
            again = await plane.at_rest(await plane.submit("", task_id=task.id, context_id=C, parts=[part]))
            assert again.status.state == a2a.TASK_STATE_INPUT_REQUIRED
            assert text(again.status.message) == question
        assert len(model.seen) == calls
        await plane.submit("yes", task_id=task.id, context_id=C)
        task = await plane.reaches(task.id, a2a.TASK_STATE_COMPLETED)
        assert "'paid': '5'" in text(task.status.message)
