"""Shares of owners in the slots of an executor: for tasks run at once, and for assigned tasks. L2, C8."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.executor.plane import ANN, BOB, Plane, Stores, eventually, open_plane, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.principal import Principal
from taskplane.runtime.sharing import Owner
from taskplane.tasks.queue import patience

SUBMITTED = a2a.TASK_STATE_SUBMITTED
WORKING = a2a.TASK_STATE_WORKING
USERS: dict[str, Any] = {"shared_by": "users"}


class Gate:
    """A script that waits for `open`, except at "hello"; notes the runs inside."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside: list[str] = []
        self.most = 0

    async def script(self, turn: Turn) -> AsyncIterator[Change]:
        self.inside.append(turn.text)
        self.most = max(self.most, len(self.inside))
        if turn.text != "hello":
            await self.open.wait()
        self.inside.remove(turn.text)
        yield Complete(f"answer to {turn.text}")


async def states(plane: Plane, sent: list[pb.SubmitResponse], who: Principal = ANN) -> list[int]:
    return [(await plane.record(each.task.task_id, who)).state for each in sent]


async def of(plane: Plane, who: Principal, name: str, number: int) -> list[pb.SubmitResponse]:
    return [await plane.submit(f"{name} {index}", who=who) for index in range(number)]


@pytest.mark.parametrize(("capacity", "of_one"), [(1, 1), (3, 3), (4, 3), (100, 75)])
async def test_a_task_is_run_at_once_beside_many_tasks_of_another_owner(
    stores: Stores, capacity: int, of_one: int
) -> None:
    """Its lease is taken in the transaction that creates it, as without a queue."""
    gate = Gate()
    async with open_plane(stores, ("a", Scripted(gate.script)), capacity=capacity, **USERS) as plane:
        sent = await of(plane, ANN, "go", of_one + 3)
        await until(lambda: len(gate.inside) == of_one)
        assert await states(plane, sent) == [WORKING] * of_one + [SUBMITTED] * 3
        if capacity >= 4:
            await until(lambda: plane.service.runs.owners_without_slot == {("tenant", "ann")})
            asked: list[str] = []

            async def create(request: tasks.CreateTaskRequest) -> None:
                asked.append(request.claim_for)

            stores.channel.before["CreateTask"] = create
            hello = await plane.submit("hello", who=BOB)
            assert text((await plane.at_rest(hello, who=BOB)).status.message) == "answer to hello"
            assert asked == [plane.service.runs.process_id]
            assert await states(plane, sent) == [WORKING] * of_one + [SUBMITTED] * 3
        gate.open.set()
        for each in sent:
            await plane.at_rest(each)
    assert gate.most == of_one + (capacity >= 4)


async def test_a_new_task_waits_behind_queued_tasks_of_its_owner(stores: Stores) -> None:
    """A free slot goes to the oldest of them."""
    gate = Gate()
    async with open_plane(stores, ("a", Scripted(gate.script)), capacity=4, **USERS) as plane:
        sent = await of(plane, ANN, "go", 4)
        await until(lambda: plane.service.runs.owners_without_slot == {("tenant", "ann")})
        assert plane.service.runs.reserve(ANN) == ""
        late = await plane.submit("late")
        await stores.tasks(ANN).CancelTask(tasks.CancelTaskRequest(task_id=sent[0].task.task_id))
        await until(lambda: "go 3" in gate.inside)
        assert "late" not in gate.inside
        gate.open.set()
        assert text((await plane.at_rest(late)).status.message) == "answer to late"


async def test_an_owner_with_queued_tasks_cannot_reserve_a_free_slot(stores: Stores) -> None:
    """Nor can any owner of a tenant whose tasks wait; others can. The store has reported the waiting owners."""
    async with open_plane(stores, ("a", Scripted(Gate().script)), capacity=4, **USERS) as plane:
        runs = plane.service.runs
        for waiting, reserved in (({("tenant", "ann")}, "bob"), ({("tenant", "")}, ""), (set[Owner](), "ann, bob")):
            runs.owners_without_slot = waiting
            found = [who for who in (ANN, BOB) if runs.reserve(who)]
            for who in found:
                runs.give_back(who)
            assert ", ".join(who.owner for who in found) == reserved


async def test_a_task_assigned_while_all_slots_are_reserved_begins_with_the_next_free_slot(stores: Stores) -> None:
    """The store does not know of a slot reserved for a new task. The lease is renewed meanwhile."""
    gate = Gate()
    gate.open.set()
    async with open_plane(stores, ("a", Scripted(gate.script)), capacity=1) as plane:
        assert plane.service.runs.reserve(BOB)
        waiting = await plane.submit("go")
        record = await eventually(lambda: plane.record(waiting.task.task_id), lambda found: found.fence == 1)
        await until(lambda: len(plane.service.runs.active) == 1)
        stores.calls.clear()
        await until(lambda: stores.calls.get("Renew", 0) >= 2)
        assert record.state == SUBMITTED and not gate.most
        plane.service.runs.give_back(BOB)
        assert text((await plane.at_rest(waiting)).status.message) == "answer to go"
        assert (await plane.record(waiting.task.task_id)).attempt == 1


async def test_an_assigned_task_that_has_not_begun_can_be_canceled(stores: Stores) -> None:
    gate = Gate()
    async with open_plane(stores, ("a", Scripted(gate.script)), capacity=1) as plane:
        assert plane.service.runs.reserve(BOB)
        waiting = await plane.submit("go")
        await until(lambda: len(plane.service.runs.active) == 1)
        await stores.tasks(ANN).CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))
        await until(lambda: not plane.service.runs.active)
        plane.service.runs.give_back(BOB)
        assert await states(plane, [waiting]) == [a2a.TASK_STATE_CANCELED] and not gate.most


async def test_a_drain_releases_an_assigned_task_that_has_not_begun_at_once(stores: Stores) -> None:
    """C14: another executor may have a free slot. The attempt does not count."""
    gate = Gate()
    async with open_plane(stores, ("a", Scripted(gate.script)), capacity=1, drain_timeout=60.0) as plane:
        assert plane.service.runs.reserve(BOB)
        waiting = await plane.submit("go")
        await until(lambda: len(plane.service.runs.active) == 1)
        await plane.service.drain()
        record = await plane.record(waiting.task.task_id)
        assert (record.state, record.attempt) == (SUBMITTED, 0) and not gate.most
        plane.service.runs.give_back(BOB)


async def test_a_direct_answer_releases_its_slot(stores: Stores) -> None:
    """Eight direct answers in sequence fit into four slots."""

    class Asked(Scripted):
        async def route(self, turn: Turn) -> str:
            return "at once"

    async with open_plane(stores, ("a", Asked(Gate().script)), capacity=4, **USERS) as plane:
        for _ in range(8):
            assert (await plane.submit("hello")).HasField("message")
        assert not plane.service.runs.active and plane.service.runs.reserve(ANN)
        plane.service.runs.give_back(ANN)


async def test_an_owner_beside_many_tasks_of_another_one_gets_more_than_one_slot(
    stores: Stores,
) -> None:
    """So a task can wait for another task of its owner."""
    gate = Gate()
    planes: list[Plane] = []

    async def ask(turn: Turn) -> AsyncIterator[Change]:
        (plane,) = planes
        asked = await plane.submit("hello", who=BOB, agent="a")
        answer = await plane.at_rest(asked, who=BOB)
        yield Complete(f"it said: {text(answer.status.message)}")

    agents = ("a", Scripted(gate.script)), ("b", Scripted(ask))
    async with open_plane(stores, *agents, capacity=8, **USERS) as plane:
        planes.append(plane)
        await of(plane, ANN, "go", 20)
        await until(lambda: len(gate.inside) == 6)
        asking = await plane.submit("ask", who=BOB, agent="b")
        answer = await plane.at_rest(asking, who=BOB)
        assert text(answer.status.message) == "it said: answer to hello"
        gate.open.set()


async def test_tasks_that_fill_the_share_of_their_owner_and_wait_for_further_tasks_complete(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks that they wait for are lent a slot, one by one."""
    monkeypatch.setattr(patience, "LENT_AFTER", 0.01)
    inside = 0
    all_inside = asyncio.Event()
    planes: list[Plane] = []

    async def ask(turn: Turn) -> AsyncIterator[Change]:
        nonlocal inside
        inside += 1
        if inside == 6:
            all_inside.set()
        await all_inside.wait()
        (plane,) = planes
        asked = await plane.submit("hello", agent="a")
        yield Complete(f"it said: {text((await plane.at_rest(asked)).status.message)}")

    agents = ("a", Scripted(Gate().script)), ("b", Scripted(ask))
    async with open_plane(stores, *agents, capacity=8, **USERS) as plane:
        planes.append(plane)
        asking = [await plane.submit(f"ask {number}", agent="b") for number in range(6)]
        for each in asking:
            assert text((await plane.at_rest(each)).status.message) == "it said: answer to hello"
