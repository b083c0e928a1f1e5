"""Deletions that touch both stores, so that the executor does them; no transaction holds the two together.

A task is deleted once its session has voided its turns for good. A session is deleted with its tasks, and turns that
begin meanwhile are met half way: who deletes removes the session first and then looks for tasks once more; who begins a
turn makes the task first and then looks for the session. So of a task that the one did not see the other sees that its
session is gone, and deletes it.
"""

import logging
from contextlib import suppress

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_log import SessionLog
from taskplane.executor.sweeps.deleting import delete_with_words
from taskplane.executor.sweeps.reconcile import Reconciler
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.retry import retry_until_reachable

log = logging.getLogger(__name__)


async def delete_task(store: TaskStoreStub, sessions: SessionLog, reconciler: Reconciler, task_id: str) -> None:
    """Cancel a task if it has not ended, and delete it with its words.

    Acts for the principal of the current context, which must be the task's owner and a service. NotFound.
    """
    context_id = await delete_with_words(store, sessions, task_id)
    try:
        await reconciler.apply(context_id)
    except NotFound:
        return
    except PlaneError as error:
        log.info("the deletion of task %s is left to a sweep: %s", task_id, error)
    await sessions.touch(context_id)


async def delete_session(store: TaskStoreStub, sessions: SessionLog, context_id: str) -> None:
    """Delete the session's tasks, of either origin and canceling running ones, then the session with its entries.

    NotFound: the caller has no such session, and no task in it. One that fails half way is finished by doing it again.
    """
    there = await sessions.exists(context_id)
    found = await _delete_tasks(store, context_id)
    if there or not found:
        await sessions.delete(context_id)
    # A turn that was saved before this and made its task meanwhile goes too, unless another one began the session anew.
    while not await sessions.exists(context_id) and await _delete_tasks(store, context_id):
        pass


async def delete_with_session(store: TaskStoreStub, sessions: SessionLog, context_id: str, task_id: str) -> None:
    """Delete a task just created in a session that was there before, if that is gone by now."""
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
