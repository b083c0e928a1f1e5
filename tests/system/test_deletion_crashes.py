"""Processes die in the middle of the deletion of a task; a repeat or the sweep finishes it, and its words stay
deleted."""

from contextlib import suppress
from uuid import uuid4

import pytest
from tests.system.plane import Plane
from tests.system.session_user import SessionUser, dies_during, session_user

from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.runtime.errors import NotFound
from taskplane.runtime.retry import retry_until_reachable

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# Process and failpoint; the void is stored there, but not at the first.
PLACES = [
    ("sessions", "append.before_commit"),
    ("sessions", "append.after_commit_before_ack"),
    ("executor", "delete.after_void"),
    ("tasks", "append.before_commit"),
    ("tasks", "append.after_commit_before_ack"),
    ("executor", "delete.after_task"),
]


async def killed(four: Plane, user: SessionUser, name: str, place: str) -> tuple[str, str]:
    """A session of two turns, whose first task was being deleted when a process died; returns that task."""
    context = uuid4().hex
    gone, _ = [await user.turn(f"echo {word}", context) for word in ("zanzibar", "kept")]
    await user.copied(context)
    delete = xb.DeleteTaskRequest(task_id=gone.id)
    await dies_during(lambda: user.executor.DeleteTask(delete), four, user, name, place)
    return context, gone.id


async def words(user: SessionUser, context: str) -> str:
    """Returns all texts of the session and its tasks."""
    entries = await user.sessions.ListEntries(sb.ListEntriesRequest(context_id=context))
    return f"{entries} {await user.shown(context)} {await user.session(context)} {await user.listed(context)}"


@pytest.mark.parametrize(("name", "place"), PLACES[1:])
async def test_a_deletion_interrupted_by_a_crash_is_finished_by_the_sweep(four: Plane, name: str, place: str) -> None:
    """C16: without another request of its client; from the void on the session does not show the words."""
    async with session_user(four) as user:
        context, gone = await killed(four, user, name, place)
        assert "zanzibar" not in await words(user, context)
        await user.applied(context)
        assert gone not in await user.listed(context)
        assert await user.shown(context) == ["echo kept", "kept"]


@pytest.mark.parametrize(("name", "place"), PLACES)
async def test_a_repeat_finishes_a_deletion_interrupted_by_a_crash(four: Plane, name: str, place: str) -> None:
    """C16: or it does not find the task any more."""
    async with session_user(four) as user:
        context, gone = await killed(four, user, name, place)
        with suppress(NotFound):
            await retry_until_reachable(lambda: user.executor.DeleteTask(xb.DeleteTaskRequest(task_id=gone)))
        assert gone not in await user.listed(context) and "zanzibar" not in await words(user, context)
        await user.turn("echo next", context)
        assert await user.shown(context) == ["echo kept", "kept", "echo next", "next"]
