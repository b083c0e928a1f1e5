"""Leases: queued work, renewals, self-fencing, drain, and lost runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.executor.plane import Stores, eventually, open_plane, open_stores, text, until
from tests.executor.scripted import Scripted
from tests.support.databases import copied
from tests.support.postgres import Cluster

from taskplane.agents.agent import ArtifactChunk, AskInput, Change, Complete, Fail, Policy, Say, Text, Turn
from taskplane.agents.demo import Demo
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.runtime.principal import Principal


async def answer(turn: Turn) -> AsyncIterator[Change]:
    yield Complete(f"answer to {turn.text}")


class Gate:
    """A script that waits in mid-run until the test opens it; counts the runs inside."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def script(self, turn: Turn) -> AsyncIterator[Change]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        yield Text("begun")
        await self.open.wait()
        self.inside -= 1
        yield Complete(f"answer to {turn.text}, attempt {turn.attempt}")


async def test_tasks_above_the_capacity_of_an_executor_are_queued_and_run_later(stores: Stores) -> None:
    gate = Gate()
    async with open_plane(stores, ("a", Scripted(gate.script)), capacity=2) as plane:
        references = [await plane.submit(f"go {n}") for n in range(5)]
        await until(lambda: gate.inside == 2)
        waiting = [await plane.record(reference.task.task_id) for reference in references[2:]]
        assert {record.state for record in waiting} == {a2a.TASK_STATE_SUBMITTED}
        assert all(reference.task.cursor and reference.task.HasField("task") for reference in references)
        gate.open.set()
        for number, reference in enumerate(references):
            task = await plane.at_rest(reference)
            assert text(task.status.message) == f"answer to go {number}, attempt 1"
            assert await plane.conversation(task.context_id) == [f"go {number}", "begun", text(task.status.message)]
    assert gate.most == 2


async def test_the_task_of_a_lost_executor_runs_again_or_fails_by_its_policy(tmp_path: Path) -> None:
    """C9: an agent that may run again does, and the second run has attempt 2; the task of another one fails."""
    gates = Gate(), Gate()
    rerun, once = Scripted(gates[0].script, policy=Policy(on_orphan="rerun")), Scripted(gates[1].script)
    async with (
        open_stores(tmp_path, lease_ttl=1.5) as stores,
        open_plane(stores, ("rerun", rerun), ("once", once)) as lost,
    ):
        again = await lost.submit("go", agent="rerun")
        never = await lost.submit("go", agent="once")
        await until(lambda: gates[0].inside == gates[1].inside == 1)
        for reference in (again, never):
            await eventually(lambda r=reference: lost.record(r.task.task_id), lambda record: record.generation >= 3)  # type: ignore[misc]

        async def gone(request: object) -> None:
            raise Unavailable("this executor is cut off")

        for method in ("Renew", "AppendEvents", "Release"):
            stores.channel.before[method] = gone
        for reference, state in ((again, a2a.TASK_STATE_SUBMITTED), (never, a2a.TASK_STATE_FAILED)):
            await eventually(lambda r=reference: lost.record(r.task.task_id), lambda record, s=state: record.state == s)  # type: ignore[misc]
        stores.channel.before.clear()
        # The lost executor notices and stops the run; its Claim stream takes the task like any other stream.
        gates[0].open.set()
        gates[1].open.set()
        task = await lost.at_rest(again)
        assert text(task.status.message) == "answer to go, attempt 2"
        assert len({turn.invocation_id for turn in rerun.turns}) == 1 and len(rerun.turns) == 2
        interrupted = [m for m in task.history if m.metadata.fields["interrupted"].bool_value]
        assert [text(message) for message in interrupted] == ["begun"]
        failed = await lost.at_rest(never)
        assert failed.status.state == a2a.TASK_STATE_FAILED
        assert failed.status.message.metadata.fields["reason"].string_value == "EXECUTOR_LOST"


async def test_a_run_with_an_uncertain_lease_pauses_until_the_lease_is_renewed(stores: Stores) -> None:
    """C8: no append once a lease may have expired; after a renewal the run continues and loses nothing."""
    sent: list[int] = []
    cut_off = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for index in range(20):
            yield ArtifactChunk("a", text=str(index % 10), append=index > 0, mergeable=False)
            await asyncio.sleep(0.02)
        yield Complete("done")

    async def unreachable(request: object) -> None:
        raise Unavailable("cut off")

    async def counted(request: tasks.AppendEventsRequest) -> None:
        sent.append(len(request.items))

    stores.channel.before.update(Renew=unreachable, AppendEvents=counted)
    async with open_plane(stores, ("a", Scripted(script)), process_id="resident:p") as plane:
        reference = await plane.submit("go")
        await until(lambda: bool(plane.service.runs.active))
        (run,) = plane.service.runs.active
        run.outbox.until = 0.0
        cut_off.set()
        before = len(sent)
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert len(sent) <= before + 1
        del stores.channel.before["Renew"]
        task = await plane.at_rest(reference)
    assert "".join(part.text for part in task.artifacts[0].parts) == "01234567890123456789"
    assert text(task.status.message) == "done"


async def test_a_run_continues_while_the_store_cannot_answer_for_its_lease(tmp_path: Path, cluster: Cluster) -> None:
    """C8: the run is not stopped, its certainty is not extended, and the leases are soon renewed again."""
    gate = Gate()
    async with (
        copied(cluster) as url,
        open_stores(tmp_path, database_url=url) as stores,
        open_plane(stores, ("a", Scripted(gate.script)), renew_every=5.0) as plane,
    ):
        reference = await plane.submit("go")
        await until(lambda: gate.inside == 1)
        (run,) = plane.service.runs.active
        holder = await asyncpg.connect(url)
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("SELECT 1 FROM lease FOR UPDATE")
        before, renewals = run.outbox.until, stores.calls.get("Renew", 0)
        await until(lambda: stores.calls.get("Renew", 0) > renewals + 3)
        assert not run.cancelled.is_set() and run.outbox.until == before
        await transaction.rollback()
        await until(lambda: run.outbox.until > before)
        gate.open.set()
        task = await plane.at_rest(reference)
        assert text(task.status.message) == "answer to go, attempt 1"
        await holder.close()


async def test_a_renewal_between_the_commit_of_an_end_and_its_answer_stops_no_run(stores: Stores) -> None:
    """C8, P11: the lease ended with the task, so it is not lost; the agent closes its resources."""
    closed: list[str] = []
    answered = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Fail("no")
        closed.append("resumed")

    async def hold(request: object) -> None:
        await answered.wait()

    stores.channel.after["AppendEvents"] = hold
    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go")
        await plane.reaches(reference.task.task_id, a2a.TASK_STATE_FAILED)
        renewals = stores.calls.get("Renew", 0)
        await until(lambda: stores.calls.get("Renew", 0) > renewals + 2)
        answered.set()
        await until(lambda: not plane.service.runs.active)
    assert closed == ["resumed"]


async def test_a_run_without_an_answer_to_its_end_is_over_when_its_lease_expires(tmp_path: Path) -> None:
    """C8: its end is committed. The store cannot confirm it while the lease lasts. The slot is free again."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Fail("no")

    async def lose(response: object) -> None:
        raise Unavailable("the connection broke")

    async with open_stores(tmp_path, lease_ttl=1.5) as stores, open_plane(stores, ("a", Scripted(script))) as plane:
        stores.channel.after["AppendEvents"] = lose
        reference = await plane.submit("go")
        await plane.reaches(reference.task.task_id, a2a.TASK_STATE_FAILED)
        await until(lambda: not plane.service.runs.active)


async def test_a_cancel_at_another_store_reaches_the_agent(tmp_path: Path, cluster: Cluster) -> None:
    """C11: renewals and polls are a minute apart here."""
    stopped = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("begun")
        try:
            await turn.cancelled.wait()
        finally:
            stopped.set()

    settings = {"lease_ttl": 120.0, "renew_every": 60.0, "poll_every": 60.0}
    async with (
        copied(cluster) as url,
        open_stores(tmp_path, database_url=url, **settings) as here,
        open_stores(tmp_path, database_url=url, **settings) as there,
        open_plane(here, ("a", Scripted(script)), renew_every=60.0) as plane,
    ):
        for number in range(3):
            reference = await plane.submit(f"go {number}")
            task_id = reference.task.task_id
            await eventually(lambda i=task_id: plane.record(i), lambda record: record.generation >= 3)  # type: ignore[misc]
            await there.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
            async with asyncio.timeout(30.0):
                await stopped.wait()
            stopped.clear()


async def test_an_executor_with_another_secret_is_not_ready(tmp_path: Path) -> None:
    """S2: and stays so; messages go to executors with the right secret."""
    async with open_stores(tmp_path, secret=b"one") as stores:
        async with open_plane(stores, internal_secret="another") as plane:
            await eventually(plane.service.ready, lambda ready: not ready)
        async with open_plane(stores, internal_secret="one") as plane:
            await plane.service.admitted()
            assert await plane.service.ready()


async def test_a_refused_secret_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S2: not with each further try, of which there are several a second."""
    async with open_stores(tmp_path, secret=b"one") as stores:
        channel = stores.channel
        async with open_plane(stores, internal_secret="another", renew_every=0.05):
            await until(lambda: "assigns no tasks" in caplog.text)
            caplog.clear()
            # Claims are tried as often.
            tried = channel.calls.get("Renew", 0)
            await until(lambda: channel.calls.get("Renew", 0) > tried + 5)
    assert [record for record in caplog.records if record.name.endswith("leases")] == []


async def test_a_drain_lets_runs_finish(stores: Stores) -> None:
    """C14: the executor is not ready meanwhile."""
    gate = Gate()
    async with open_plane(stores, ("a", Scripted(gate.script)), drain_timeout=30.0) as plane:
        reference = await plane.submit("go")
        await until(lambda: gate.inside == 1)
        draining = asyncio.ensure_future(plane.service.drain())
        await asyncio.sleep(0)
        assert not await plane.service.ready()
        gate.open.set()
        await draining
        assert (await plane.record(reference.task.task_id)).state == a2a.TASK_STATE_COMPLETED


async def test_a_run_that_does_not_finish_before_the_end_of_a_drain_is_released(stores: Stores) -> None:
    """C14: a released task goes by its policy at once, and the attempt does not count."""
    gate = Gate()
    agent = Scripted(gate.script, policy=Policy(on_orphan="rerun"))
    async with open_plane(stores, ("a", agent), drain_timeout=0.05) as first:
        released = await first.submit("go")
        await until(lambda: gate.inside == 1)
    record = await first.record(released.task.task_id)
    assert record.state == a2a.TASK_STATE_SUBMITTED and record.attempt == 0
    gate.open.set()
    async with open_plane(stores, ("a", agent)) as second:
        task = await second.at_rest(released)
    assert text(task.status.message) == "answer to go, attempt 1"


async def test_a_drain_fails_an_unfinished_run_of_the_default_policy(stores: Stores) -> None:
    """C14: with on_orphan "fail" a started task does not move to another executor."""
    gate = Gate()
    agent = Scripted(gate.script)
    async with open_plane(stores, ("a", agent), drain_timeout=0.05) as first:
        submitted = await first.submit("go")
        await until(lambda: gate.inside == 1)
    record = await first.record(submitted.task.task_id)
    assert record.state == a2a.TASK_STATE_FAILED
    async with open_plane(stores, ("a", agent)) as second:
        task = await second.at_rest(submitted)
    assert task.status.message.metadata["reason"] == "EXECUTOR_LOST"
    assert gate.inside == 1


async def test_the_invocation_id_is_the_same_in_every_attempt_and_new_in_every_turn(stores: Stores) -> None:
    """C9: an agent can use it as an idempotency key; the attempt is 1 in all three runs here."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        begun.set()
        await go_on.wait()
        yield AskInput("why?") if turn.text == "go" else Complete("done")

    agent = Scripted(script, policy=Policy(on_orphan="rerun"))
    async with open_plane(stores, ("a", agent), drain_timeout=0.05) as first:
        released = await first.submit("go")
        await begun.wait()
    go_on.set()
    async with open_plane(stores, ("a", agent)) as second:
        task = await second.at_rest(released)
        await second.submit("because", task_id=task.id)
        await second.reaches(task.id, a2a.TASK_STATE_COMPLETED)
    assert [(turn.text, turn.attempt) for turn in agent.turns] == [("go", 1), ("go", 1), ("because", 1)]
    first_run, second_run, answer_run = (turn.invocation_id for turn in agent.turns)
    assert first_run == second_run != answer_run


async def test_a_repeated_assignment_of_a_lease_starts_no_second_run(stores: Stores) -> None:
    """An executor starts at most one run per task and fence, and remembers the fences."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run("go")
        record = await plane.record(task.id)
        again = plane.service.runs.start_assigned(tasks.Assignment(record=record, fence=1))
        assert again is None and len(agent.turns) == 1


async def test_a_follow_up_may_run_on_another_executor(stores: Stores) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say(f"saw {len(turn.history)} messages and {len(turn.task.history) if turn.task else 0} in the task")
        yield Complete("done")

    async with open_plane(stores, ("demo", Demo())) as first:
        asked = await first.run("ask")
    async with open_plane(stores, ("demo", Scripted(script))) as second:
        await second.submit("Ann", task_id=asked.id)
        task = await second.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
    assert text(task.history[-1]) == "saw 2 messages and 3 in the task"


async def test_a_replaced_claim_stream_is_opened_again(stores: Stores) -> None:
    """C8: leases live by renewals. A cut stream loses nothing, and waiting tasks are assigned after it is back."""
    async with open_plane(stores, process_id="p") as plane:
        asked = await plane.run("ask")
        channel = client(InProcessChannel(stores.services), identity=Principal("", "", "other", service=True))
        call = TaskQueueStub(channel).Claim(tasks.ClaimRequest(process_id="p", agents=["none"], capacity=1))
        replaced = asyncio.ensure_future(anext(aiter(call)))
        await plane.submit("Ann", task_id=asked.id)
        await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError, PlaneError):
            await replaced
