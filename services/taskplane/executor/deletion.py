"""Deleting a session touches both stores, so the executor does it."""

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.history import SessionLog
from taskplane.runtime.errors import NotFound


async def delete_session(store: TaskStoreStub, sessions: SessionLog, context_id: str) -> None:
    """Deletes the session's tasks, of either origin and canceling what runs, then the session with its entries.

    NotFound: the caller has no such session. One that fails half way is finished by doing it again.
    """
    await sessions.check_exists(context_id)
    await _delete_tasks(store, context_id)
    await sessions.delete(context_id)
    # A turn that was saved before this and made its task meanwhile goes too, unless another one began the session anew.
    while not await _exists(sessions, context_id) and await _delete_tasks(store, context_id):
        pass


async def _delete_tasks(store: TaskStoreStub, context_id: str) -> bool:
    """Whether there were any."""
    found = False
    while True:
        page = await store.ListTasks(pb.ListTasksRequest(context_id=context_id, page_size=100, history_length=0))
        for record in page.records:
            found = True
            try:
                await store.DeleteTask(pb.DeleteTaskRequest(task_id=record.id))
            except NotFound:
                continue
        if not page.next_page_token:
            return found


async def _exists(sessions: SessionLog, context_id: str) -> bool:
    try:
        await sessions.check_exists(context_id)
    except NotFound:
        return False
    return True
