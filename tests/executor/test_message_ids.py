"""Message ids in use: the cost of a lookup, its failures, and a model of the ids that are shown."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.executor.plane import Plane, Stores, open_plane, said, text
from tests.executor.rewinding import session
from tests.executor.scripted import Scripted
from tests.support.thorough import THOROUGH

from taskplane.agents.agent import AskInput, Change, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.turns.message_ids import keep_apart
from taskplane.runtime.errors import Exhausted, Unavailable

SEEDS = range(20 if THOROUGH else 3)


async def ask(turn: Turn) -> AsyncIterator[Change]:
    yield AskInput("and?")


async def shown(plane: Plane, context_id: str = "c") -> list[a2a.Message]:
    """Return the messages of the user that the session shows."""
    request = sessions.GetSessionTaskRequest(context_id=context_id)
    task = (await plane.stores.sessions().GetSessionTask(request)).task
    return [message for message in task.history if message.role == a2a.ROLE_USER]


async def paused(plane: Plane, words: str, **fields: Any) -> a2a.Task:
    task = await plane.run(words, **{"context_id": "c", **fields})
    assert task.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    return task


async def test_only_a_message_to_a_task_costs_a_lookup_of_its_id(stores: Stores) -> None:
    """T11: a turn costs no further call; a message to a task costs one, unless the version of the session is read
    anyway."""
    async with open_plane(stores, ("a", Scripted(ask))) as plane:

        async def asked(words: str, **options: Any) -> dict[str, int]:
            """The calls before anything is stored."""
            first = ("CreateTask", "AppendEntries", "AddMessage")
            found: dict[str, int] = {}

            async def note(_: object) -> None:
                found.update(found or {name: count for name, count in stores.calls.items() if name not in first})

            await copied(plane)
            stores.calls.clear()
            stores.channel.before |= dict.fromkeys(first, note)
            begun = await plane.submit(words, **options)
            stores.channel.before.clear()
            await plane.at_rest(begun)
            return {name: count for name, count in found.items() if name in ("GetTask", "GetSession", "ListEntries")}

        task = await paused(plane, "one", message_id="m")
        assert await asked("two") == {}
        assert await asked("three", context_id="c", message_id="") == {}
        assert await asked("four", context_id="c", message_id="m") == {}
        assert await asked("five", task_id=task.id, context_id="c", message_id="m") == {"ListEntries": 1}
        alone = await paused(plane, "six")
        assert await asked("seven", task_id=alone.id, message_id="m") == {"GetTask": 1, "ListEntries": 1}
        other = await paused(plane, "eight")
        await copied(plane)
        version = {"expected_version": (await session(plane)).version}
        assert await asked("nine", task_id=other.id, message_id="m", more=version) == {"ListEntries": 1}
        assert [text(each) for each in await shown(plane) if each.message_id == "m"] == ["one"]
        assert {text(each) for each in await shown(plane)} >= {"four", "five", "seven", "nine"}


async def copied(plane: Plane) -> None:
    """Waits until the version of the session stays: all of its tasks are at rest and copied."""
    was = -1
    while (now := (await session(plane)).version) != was:
        was = now
        await asyncio.sleep(0.1)


async def test_a_message_to_a_task_is_accepted_while_its_id_cannot_be_looked_up(stores: Stores) -> None:
    """T11, C15: the message keeps its id then."""
    async with open_plane(stores, ("a", Scripted(ask))) as plane:
        task = await paused(plane, "one", message_id="m")

        async def away(request: sessions.ListEntriesRequest) -> None:
            if request.message_id:
                raise Unavailable("the session store is away")

        stores.channel.before["ListEntries"] = away
        await plane.submit("three", task_id=task.id, context_id="c", message_id="m")
        stores.channel.before.clear()
        (event,) = await plane.events(task.id, tasks.EVENT_KIND_MESSAGE)
        added = event.event.status_update.status.message
        assert (text(added), added.message_id) == ("three", "m")


async def test_a_resumed_turn_keeps_the_message_id_under_which_it_was_saved(stores: Stores) -> None:
    """T11, C10: the stored entry identifies the repeat."""
    async with open_plane(stores, ("a", Scripted(ask))) as plane:
        await paused(plane, "one", message_id="m")

        async def away(_: object) -> None:
            raise Exhausted("not now")

        stores.channel.before["CreateTask"] = away
        with pytest.raises(Exhausted):
            await plane.submit("two", key="k", context_id="c", message_id="m")
        stores.channel.before.clear()
        task = await paused(plane, "two", key="k", message_id="m")
        (entry,) = [each for each in await plane.entries("c") if text(each.message) == "two"]
        assert task.history[0].message_id == entry.message.message_id != "m"


def expected(sent: Sequence[Sequence[tuple[str, str]]], order: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    """The naive model: text and id of each shown message, "" for a new id. `sent` has the texts and ids of the messages
    to each task, `order` their positions in the order of sending."""
    used: set[str] = set()
    ids: dict[tuple[int, int], str] = {}
    for place in order:
        _, message_id = sent[place[0]][place[1]]
        ids[place] = "" if message_id in used else message_id
        used.add(message_id)
    return [
        (words, ids[number, index]) for number, messages in enumerate(sent) for index, (words, _) in enumerate(messages)
    ]


@pytest.mark.more
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_session_shows_the_messages_and_ids_of_a_naive_model(stores: Stores, seed: int) -> None:
    """T11, T12, T6: for generated turns and messages to tasks, with few ids and few texts."""
    choice = random.Random(seed)
    async with open_plane(stores, ("a", Scripted(ask))) as plane:
        sent: list[tuple[str, list[tuple[str, str]]]] = []
        order: list[tuple[int, int]] = []
        for _ in range(12):
            message = (choice.choice("abc"), choice.choice("12"))
            number = choice.randrange(-1, len(sent))
            fields = {"message_id": message[1], "task_id": sent[number][0] if number >= 0 else ""}
            if number < 0:
                number = len(sent)
                sent.append(((await paused(plane, message[0], **fields)).id, []))
            else:
                await paused(plane, message[0], **fields)
            sent[number][1].append(message)
            order.append((number, len(sent[number][1]) - 1))
        found = await shown(plane)
        assert len({each.message_id for each in found}) == len(found)
        known = [(text(each), each.message_id if each.message_id in ("1", "2") else "") for each in found]
        assert known == expected([messages for _, messages in sent], order)
        histories = [
            message for task_id, _ in sent for message in (await plane.task(task_id)).history if message.role == 1
        ]
        assert {(text(each), each.message_id) for each in histories} == {
            (text(each), each.message_id) for each in found
        }


def test_a_message_keeps_its_id_unless_another_turn_has_it() -> None:
    """T11, T12: with any text; a repeat finds its own entry."""

    def kept(first: sessions.Entry | None) -> bool:
        message = said("x", message_id="m")
        keep_apart(message, first, "invocation")
        return message.message_id == "m"

    assert kept(None)
    assert kept(sessions.Entry(invocation_id="invocation", message=said("x", message_id="m")))
    assert not kept(sessions.Entry(invocation_id="other", message=said("x", message_id="m")))
    assert not kept(sessions.Entry(invocation_id="other", message=said("y", message_id="m")))
