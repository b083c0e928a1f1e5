"""The buffer of a run with its uncopied messages, beside a log that is written and read at the same time."""

import pytest
from tests.executor.plane import ANN, Stores, said, text

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.runs.copy_buffer import MAX_REMEMBERED_BYTES, CopyBuffer
from taskplane.executor.runs.outbox import CommittedItem
from taskplane.executor.session_log import SessionLog
from taskplane.executor.sweeps.copying import Copier, Source
from taskplane.runtime import message_times
from taskplane.runtime.channel import client
from taskplane.runtime.times import micros

SERVICE = ANN._replace(service=True)


class Task:
    """A task with a lease, messages that are appended one item at a time, and the buffer of its run."""

    def __init__(self, stores: Stores, created: tasks.CreateTaskResponse) -> None:
        channel = client(stores.channel, identity=SERVICE)
        self.store = TaskStoreStub(channel)
        self._stores = stores
        self._record = created.record
        self._fence = created.fence
        self._number = 0
        source = Source(uid=created.record.uid, task_id=created.record.id, context_id="c", invocation_id="i", agent="a")
        self.copier = Copier(self.store, SessionLog(SessionHistoryStub(channel)))
        self.buffer = CopyBuffer(source, head=1, copied=0, complete=False, actor="executor")

    async def append(self, words: str) -> CommittedItem:
        """Appends one message to the log; returns the item as the run gets it."""
        self._number += 1
        message = said(words, role=a2a.ROLE_AGENT)
        status = a2a.TaskStatus(state=a2a.TASK_STATE_WORKING, message=message)
        item = tasks.AppendItem(
            task_uid=self._record.uid,
            fence=self._fence,
            number=self._number,
            changes=[tasks.Change(status=a2a.TaskStatusUpdateEvent(status=status))],
        )
        (result,) = (await self.store.AppendEvents(tasks.AppendEventsRequest(items=[item]))).results
        assert not result.HasField("refusal")
        generation = result.first_generation
        message_times.add_time(message.metadata, micros(result.created_at))
        return CommittedItem(generation, generation, 1, True, [(generation, message)])

    async def ask(self, words: str) -> None:
        """Appends a message of the user. The run notices it only by the generations of its own items."""
        request = tasks.AddMessageRequest(
            task_id=self._record.id, invocation_id=words, request_hash=b"h" * 32, message=said(words)
        )
        await self._stores.tasks().AddMessage(request)

    async def copy(self) -> bool:
        return await self.buffer.copy(self.copier)

    async def conversation(self) -> list[str]:
        request = sessions.ListEntriesRequest(context_id="c", effective=True)
        return [text(entry.message) for entry in (await self._stores.sessions().ListEntries(request)).entries]

    @property
    def reads(self) -> int:
        """How often the log was read."""
        return self._stores.calls.get("ListEvents", 0)


@pytest.fixture
async def task(stores: Stores) -> Task:
    """A working task without messages in its session."""
    request = tasks.CreateTaskRequest(
        invocation_id="i",
        request_hash=b"h" * 32,
        task_id="t",
        context_id="c",
        agent="a",
        message=said("go"),
        max_attempts=1,
        on_orphan=tasks.ON_ORPHAN_FAIL,
        strategy=tasks.STRATEGY_PARALLEL,
        claim_for="executor",
    )
    return Task(stores, await TaskStoreStub(client(stores.channel, identity=SERVICE)).CreateTask(request))


async def test_remembered_messages_are_copied_without_reading_the_log(task: Task) -> None:
    """The log is read once, for the messages before the buffer began."""
    assert await task.copy() and task.reads == 1
    for words in ("one", "two"):
        task.buffer.committed(await task.append(words))
    assert not task.buffer.silent
    assert await task.copy() and task.buffer.silent and task.reads == 1
    assert not await task.copy()
    assert await task.conversation() == ["go", "one", "two"]


async def test_a_message_committed_during_a_copy_is_in_the_next_copy(stores: Stores, task: Task) -> None:
    await task.copy()
    first = await task.append("one")
    task.buffer.committed(first)
    second = await task.append("two")

    async def commit(request: object) -> None:
        stores.channel.before.clear()
        task.buffer.committed(second)

    stores.channel.before["AppendEntries"] = commit
    assert await task.copy()
    assert task.buffer.copied == first.last and not task.buffer.silent
    assert await task.conversation() == ["go", "one"]
    assert await task.copy()
    assert task.buffer.copied == second.last and task.buffer.silent and task.reads == 1
    assert await task.conversation() == ["go", "one", "two"]


async def test_a_message_that_was_read_from_the_log_is_not_added_again(task: Task) -> None:
    """C6: its answer comes later than the read. The messages after it are remembered as before."""
    late = await task.append("one")
    assert await task.copy() and task.buffer.copied == late.last
    task.buffer.committed(late)
    assert task.buffer.silent
    task.buffer.committed(await task.append("two"))
    assert await task.copy() and task.reads == 1
    assert await task.conversation() == ["go", "one", "two"]


async def test_a_message_committed_after_the_log_was_read_causes_another_read(stores: Stores, task: Task) -> None:
    """C6: the read ended at a generation before the newest of the run."""

    async def commit(request: object) -> None:
        stores.channel.after.clear()
        task.buffer.committed(await task.append("one"))

    stores.channel.after["ListEvents"] = commit
    assert await task.copy()
    assert not task.buffer.silent and await task.conversation() == ["go"]
    assert await task.copy() and task.buffer.silent
    assert await task.conversation() == ["go", "one"] and task.reads == 2


async def test_a_message_that_the_run_did_not_append_is_read_from_the_log(task: Task) -> None:
    await task.copy()
    await task.ask("and?")
    task.buffer.committed(await task.append("one"))
    assert await task.copy() and task.reads == 2
    task.buffer.committed(await task.append("two"))
    assert await task.copy() and task.reads == 2
    assert await task.conversation() == ["go", "and?", "one", "two"]


async def test_messages_above_the_limit_of_the_buffer_are_read_from_the_log(task: Task) -> None:
    await task.copy()
    words = "x" * (MAX_REMEMBERED_BYTES // 2 + 1)
    for _ in range(2):
        task.buffer.committed(await task.append(words))
    assert await task.copy() and task.reads == 2
    task.buffer.committed(await task.append("small"))
    assert await task.copy() and task.reads == 2
    assert await task.conversation() == ["go", words, words, "small"]
