"""A send that names the version its session must have."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.executor.plane import Plane, Stores, eventually, open_plane, text
from tests.executor.rewinding import answer, invocation, listed, rewind, rewind_session, session, turns, undo
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AskInput, Change, Turn
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.runtime.errors import Conflict


class Routed(Scripted):
    """Answers directly."""

    async def route(self, turn: Turn) -> str | None:
        return "direct"


async def send(plane: Plane, version: int, words: str = "next", **options: Any) -> pb.SubmitResponse:
    return await plane.submit(words, more={"expected_version": version}, **options)


@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("routed", [True, False])
async def test_of_two_sends_with_the_same_expected_version_one_is_accepted(
    stores: Stores, key: str, routed: bool
) -> None:
    """R9: the other one is refused with the version, and stores and starts nothing."""
    agent = (Routed if routed else Scripted)(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        await turns(plane, "one") if not routed else await plane.submit("one", context_id="c")
        version, ran = (await session(plane)).version, len(agent.turns)
        first, second = [f"{key}{n}" if key else "" for n in (1, 2)]
        taken = await send(plane, version, context_id="c", key=first, message_id="m")
        if not routed:
            await plane.at_rest(taken)
        found, tasks = await session(plane), await listed(plane)
        with pytest.raises(Conflict) as refused:
            await send(plane, version, context_id="c", key=second)
        assert refused.value.reason == "VERSION_MISMATCH"
        assert refused.value.metadata["version"] == str(found.version)
        assert await session(plane) == found and await listed(plane) == tasks
        assert len(agent.turns) == (ran if routed else ran + 1)
        if key:
            again = await send(plane, version, context_id="c", key=first, message_id="m")
            assert (again.task.task_id, again.message) == (taken.task.task_id, taken.message)


async def test_an_expected_version_of_an_unknown_session_is_refused(plane: Plane) -> None:
    with pytest.raises(Conflict):
        await send(plane, 1, context_id="new")
    assert await listed(plane, "new") == []


async def test_the_expected_version_is_checked_for_a_message_to_a_task_but_not_for_its_repeat(stores: Stores) -> None:
    async def ask(turn: Turn) -> AsyncIterator[Change]:
        yield AskInput("and?")

    async with open_plane(stores, ("a", Scripted(ask))) as plane:
        (asked,) = await turns(plane, "one")
        await eventually(lambda: plane.conversation("c"), lambda found: found == ["one", "and?"])
        version = (await session(plane)).version
        with pytest.raises(Conflict) as refused:
            await send(plane, version - 1, task_id=asked.id)
        assert refused.value.metadata["version"] == str(version)
        assert len((await plane.task(asked.id)).history) == len(asked.history)
        for _ in range(2):
            taken = await send(plane, version, "two", task_id=asked.id, key="k", message_id="m")
            assert taken.task.task_id == asked.id
            await plane.at_rest(taken)
        assert [words for words in await plane.conversation("c") if words != "and?"] == ["one", "two"]


async def test_the_expected_version_is_checked_for_a_message_with_a_new_task_id(plane: Plane) -> None:
    await turns(plane, "one")
    version = (await session(plane)).version
    options: dict[str, Any] = {"context_id": "c", "task_id": "mine", "key": "k", "message_id": "m"}

    async def create(version: int) -> pb.SubmitResponse:
        more = {"expected_version": version, "create_unknown_task": True}
        return await plane.submit("two", more=more, **options)

    with pytest.raises(Conflict):
        await create(version - 1)
    taken = await create(version)
    await plane.at_rest(taken)
    assert (await create(version)).task.task_id == "mine" == taken.task.task_id


async def test_rewinds_and_undos_check_the_expected_version(plane: Plane) -> None:
    """R9: also a rewind with a new turn, and its repeat."""
    one, two = await turns(plane, "one", "two")
    version = (await session(plane)).version
    for refused in (
        rewind(plane, invocation(two), "new", expected_version=version - 1),
        rewind_session(plane, invocation(two), expected_version=version - 1),
        undo(plane, expected_version=version - 1),
    ):
        with pytest.raises(Conflict) as mismatch:
            await refused
        assert mismatch.value.reason == "VERSION_MISMATCH"
    assert (await session(plane)).version == version
    done = await rewind_session(plane, invocation(two), expected_version=version)
    back = await undo(plane, expected_version=done.version)
    again = [
        await rewind(plane, invocation(two), "new", expected_version=back.version, key="k", message_id="m")
        for _ in range(2)
    ]
    task = await plane.at_rest(pb.SubmitResponse(task=again[0].rewound.next))
    assert again[1].rewound.next.task_id == task.id
    assert (await plane.conversation("c"))[2] == "new" and await listed(plane) == [one.id, task.id]


async def test_of_fifty_sends_with_the_same_expected_version_one_becomes_a_turn(stores: Stores) -> None:
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        await turns(plane, "one")
        version = (await session(plane)).version
        sends = (send(plane, version, f"next {n}", context_id="c") for n in range(50))
        answers = await asyncio.gather(*sends, return_exceptions=True)
        (taken,) = [each for each in answers if isinstance(each, pb.SubmitResponse)]
        await plane.at_rest(taken)
        assert all(isinstance(each, (pb.SubmitResponse, Conflict)) for each in answers)
        assert len(agent.turns) == 2
        assert len(await plane.conversation("c")) == 4
        assert text((await plane.task(taken.task.task_id)).history[0]).startswith("next")
