"""Processes die in the middle of a rewind; the sweep or the next request finishes it, and nothing is done twice."""

from dataclasses import dataclass
from uuid import uuid4

import pytest
from tests.system.judge import at_rest, held, judge
from tests.system.plane import Plane
from tests.system.session_user import SessionUser, dies_during, invocation, session_user

from taskplane.api.executor.v1 import executor_pb2 as xb

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# Process and failpoint; the entry is stored there, but not at the first.
PLACES = [
    ("sessions", "append.before_commit"),
    ("sessions", "append.after_commit_before_ack"),
    ("executor", "rewind.after_entry"),
    ("tasks", "append.before_commit"),
    ("tasks", "append.after_commit_before_ack"),
    ("executor", "rewind.after_mark"),
]


@dataclass(frozen=True)
class Cut:
    """A session of two turns that was rewound before the second while a process died."""

    context: str
    whole: list[str]
    tasks: list[str]
    before: str


async def killed(four: Plane, user: SessionUser, name: str, place: str, words: str, key: str) -> Cut:
    """Kills a process during a rewind, and starts it again."""
    context = uuid4().hex
    first, second = [await user.turn(f"echo {number}", context) for number in ("one", "two")]
    await at_rest(four)
    whole = await user.shown(context)
    await dies_during(lambda: user.rewind(invocation(second), context, words, key=key), four, user, name, place)
    return Cut(context, whole, [first.id, second.id], invocation(second))


@pytest.mark.parametrize(("name", "place"), PLACES[1:])
async def test_a_rewind_interrupted_by_a_crash_is_finished_by_the_sweep(four: Plane, name: str, place: str) -> None:
    """R4, R8: without another request of its client; it can be undone like any other."""
    async with session_user(four) as user:
        cut = await killed(four, user, name, place, "", "")
        await user.applied(cut.context)
        assert await user.listed(cut.context) == cut.tasks[:1]
        assert await user.shown(cut.context) == cut.whole[:2] and await user.rewinds(cut.context) == 1
        await user.executor.UndoRewind(xb.UndoRewindRequest(context_id=cut.context))
        assert await user.listed(cut.context) == cut.tasks and await user.shown(cut.context) == cut.whole
    await at_rest(four)
    assert judge(await held(four), {}, ()).findings() == []


@pytest.mark.parametrize(("name", "place"), PLACES)
async def test_a_repeat_of_a_rewind_interrupted_by_a_crash_is_answered(four: Plane, name: str, place: str) -> None:
    """R4, R6, C10: one rewind, one new turn."""
    async with session_user(four) as user:
        key = uuid4().hex
        cut = await killed(four, user, name, place, "echo instead", key)
        rewound, again = [await user.rewind(cut.before, cut.context, "echo instead", key=key) for _ in range(2)]
        assert rewound.next.task_id == again.next.task_id
        await user.at_rest(rewound.next.task_id)
        await user.copied(cut.context)
        assert await user.rewinds(cut.context) == 1
        assert await user.listed(cut.context) == [cut.tasks[0], rewound.next.task_id]
        shown = await user.shown(cut.context)
        assert shown[:3] == [*cut.whole[:2], "echo instead"] and len(shown) == 4
        session = await user.session(cut.context)
        assert session.applied_seq == session.steered_seq
    await at_rest(four)
    assert judge(await held(four), {}, ()).findings() == []


@pytest.mark.parametrize("name", ["executor"])
@pytest.mark.parametrize("place", ["rewind.after_entry", "rewind.after_mark"])
async def test_an_undo_interrupted_by_a_crash_is_finished_by_the_sweep(four: Plane, place: str, name: str) -> None:
    """R8, R4: a repeat under its key reverts no further rewind."""
    async with session_user(four) as user:
        context = uuid4().hex
        tasks = [await user.turn(f"echo {number}", context) for number in ("one", "two")]
        whole = await user.shown(context)
        for task in reversed(tasks):
            await user.rewind(invocation(task), context)
        await at_rest(four)
        undo = xb.UndoRewindRequest(context_id=context, idempotency_key=context)
        await dies_during(lambda: user.executor.UndoRewind(undo), four, user, name, place)
        await user.applied(context)
        for _ in range(2):
            assert await user.listed(context) == [tasks[0].id]
            assert await user.shown(context) == whole[:2]
            await user.executor.UndoRewind(undo)
