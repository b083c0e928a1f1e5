"""Deletes all that there is of an owner, in both stores.

Staged imports go first, so that none of them becomes visible later. Tasks go before sessions and are looked
for again after them: an executor saves the message of a turn first and creates the task then, so of a turn that begins
meanwhile at least one is seen.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_log import SessionLog
from taskplane.runtime.errors import NotFound

# Seconds that one call works, approximately; less than the deadline of a call.
_WORKING: Final = 3.0


async def erase_owner(store: TaskStoreStub, sessions: SessionLog) -> pb.EraseOwnerResponse:
    """Delete the data of the caller's owner; `more`: the time was up. Done again, it goes on."""
    began = time.monotonic()
    await sessions.drop_imports()
    await store.DropImport(tasks.DropImportRequest())
    gone = pb.EraseOwnerResponse()
    found = True
    while found:
        found = False
        for deleting in (_tasks(store, gone), _sessions(sessions, gone)):
            async for _ in deleting:
                found = True
                if time.monotonic() - began > _WORKING:
                    gone.more = True
                    return gone
    gone.state_keys = await sessions.delete_state()
    return gone


async def _tasks(store: TaskStoreStub, gone: pb.EraseOwnerResponse) -> AsyncGenerator[None]:
    """Delete tasks until none are left; the caller may stop after each."""
    request = tasks.ListTasksRequest(page_size=100, history_length=0, include_superseded=True)
    while records := (await store.ListTasks(request)).records:
        for record in records:
            with suppress(NotFound):
                await store.DeleteTask(tasks.DeleteTaskRequest(task_id=record.id))
                gone.tasks += 1
                gone.events += record.generation
                gone.canceled += record.origin == tasks.ORIGIN_MANAGED and not record.terminal_generation
            yield


async def _sessions(sessions: SessionLog, gone: pb.EraseOwnerResponse) -> AsyncGenerator[None]:
    """Delete sessions until none are left; the caller may stop after each."""
    while page := await sessions.some():
        for session in page:
            with suppress(NotFound):
                await sessions.delete(session.context_id)
                gone.sessions += 1
                gone.entries += session.entry_count
            yield
