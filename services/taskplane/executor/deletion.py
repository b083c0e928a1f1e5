"""Deletions of tasks and sessions, in both stores. No transaction spans the two, so the order of the steps matters.

A task is deleted once its session has voided its turns for good.

A session is deleted with its tasks, and a turn may begin meanwhile. So each side looks into the other store after its
own write: the deletion deletes the tasks, then the session, then looks for tasks again; a turn creates its task, then
looks for its session. If the deletion does not see the new task, the turn sees that its session is gone, and deletes
the task.
"""

import logging
from contextlib import suppress

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_log import SessionLog
from taskplane.executor.sweeps.deleting import delete_with_content
from taskplane.executor.sweeps.reconcile import Reconciler
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.retry import retry_until_reachable

log = logging.getLogger(__name__)


async def delete_task(store: TaskStoreStub, sessions: SessionLog, reconciler: Reconciler, task_id: str) -> None:
    """Cancel a task if it has not ended, and delete it with its content.

    Acts for the principal of the current context, which must be the task's owner and a service. NotFound.
    """
    context_id = await delete_with_content(store, sessions, task_id)
    try:
        await reconciler.apply(context_id)
    except NotFound:
        return
    except PlaneError as error:
        log.info("the deletion of task %s is left to a sweep: %s", task_id, error)
    await sessions.touch(context_id)


async def delete_session(store: TaskStoreStub, sessions: SessionLog, context_id: str) -> None:
    """Delete the tasks of a session, managed ones and documents, then the session with its entries.

    Runs of these tasks are stopped. Repeat a deletion that failed half way. NotFound: the caller has neither this
    session nor a task in it.
    """
    there = await sessions.exists(context_id)
    found = await _delete_tasks(store, context_id)
    if there or not found:
        await sessions.delete(context_id)
    # A turn that was saved before may have created its task meanwhile. If a new turn has created the session again, its
    # tasks stay.
    while not await sessions.exists(context_id) and await _delete_tasks(store, context_id):
        pass


async def delete_if_session_gone(store: TaskStoreStub, sessions: SessionLog, context_id: str, task_id: str) -> None:
    """Delete a new task if its session, which existed before, is gone by now."""
    if not await retry_until_reachable(lambda: sessions.exists(context_id)):
        with suppress(NotFound):
            await retry_until_reachable(lambda: store.DeleteTask(pb.DeleteTaskRequest(task_id=task_id)))


async def _delete_tasks(store: TaskStoreStub, context_id: str) -> bool:
    """Delete the tasks of a session, and return whether there were any."""
    found = False
    while True:
        request = pb.ListTasksRequest(context_id=context_id, page_size=100, history_length=0, include_superseded=True)
        page = await store.ListTasks(request)
        for record in page.records:
            found = True
            try:
                await store.DeleteTask(pb.DeleteTaskRequest(task_id=record.id))
            except NotFound:
                continue
        if not page.next_page_token:
            return found
