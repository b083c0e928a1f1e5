"""Rewinds and undos of a running plane, over its gRPC ports."""

import asyncio
import random
from collections import Counter
from uuid import uuid4

import pytest
from tests.support.thorough import THOROUGH
from tests.system.judge import held, judge
from tests.system.plane import Plane, on_both_engines
from tests.system.session_user import SessionUser, invocation, session_user, texts

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.runtime.errors import Conflict, NotFound, PlaneError

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300), on_both_engines]

# Races, in tens.
TENS = 10 if THOROUGH else 3


async def test_a_conversation_is_rewound_restored_and_continued(plane: Plane) -> None:
    """R2, R3, R4, R6, R8, R9: the session task, the listing, and the failed task of a turn that is not in effect."""
    context = uuid4().hex
    async with session_user(plane) as user:
        tasks = [await user.turn(f"echo {number}", context) for number in ("one", "two", "three")]
        whole = await user.shown(context)
        rewound = await user.rewind(invocation(tasks[1]), context)
        assert rewound.task.id == context and rewound.task.status.state == a2a.TASK_STATE_COMPLETED
        assert texts(rewound.task) == whole[:2] == await user.shown(context)
        assert await user.listed(context) == [tasks[0].id]
        failed = await user.rewind(invocation(tasks[2]), context, "echo never")
        assert failed.task.status.state == a2a.TASK_STATE_FAILED and not failed.HasField("next")
        assert invocation(tasks[2]) in failed.task.status.message.parts[0].text
        undone = await user.executor.UndoRewind(xb.UndoRewindRequest(context_id=context))
        assert texts(undone.task) == whole and await user.listed(context) == [task.id for task in tasks]
        instead = await user.rewind(invocation(tasks[2]), context, "echo instead")
        assert texts(instead.task) == whole[:4]
        assert (await user.at_rest(instead.next.task_id)).state == a2a.TASK_STATE_COMPLETED
        assert (await user.shown(context))[:5] == [*whole[:4], "echo instead"]
        assert await user.listed(context) == [tasks[0].id, tasks[1].id, instead.next.task_id]
        again = await user.executor.RewindSession(
            xb.RewindSessionRequest(context_id=context, before_invocation_id=invocation(tasks[0]))
        )
        assert texts(again.task) == [] == await user.listed(context)
        assert again.version == (await user.session(context)).version
        with pytest.raises(NotFound):
            await user.rewind(invocation(tasks[0]), uuid4().hex)


async def test_of_two_concurrent_rewinds_one_succeeds_or_both_stack(plane: Plane) -> None:
    """R9: one effective history, a typed conflict with the version for a refused one, and tasks that match the
    history."""
    outcomes: Counter[str] = Counter()

    async def race(user: SessionUser, index: int) -> None:
        context = uuid4().hex
        tasks = [await user.turn("echo", context) for _ in range(3)]
        whole = await user.shown(context)
        cuts = (1, 1) if index % 3 == 0 else (1, 2) if index % 3 == 1 else (2, 1)
        answers = await asyncio.gather(
            *(user.rewind(invocation(tasks[cut]), context) for cut in cuts), return_exceptions=True
        )
        kept = len(whole)
        for answer in answers:
            if isinstance(answer, xb.Rewound):
                outcomes[a2a.TaskState.Name(answer.task.status.state)] += 1
                if answer.task.status.state == a2a.TASK_STATE_COMPLETED:
                    kept = min(kept, len(answer.task.history))
            else:
                assert isinstance(answer, Conflict) and answer.reason == "REWIND_IN_FLIGHT", answer
                assert 0 < int(answer.metadata["version"]) <= (await user.session(context)).version
                outcomes[answer.reason] += 1
        assert kept < len(whole)
        assert await user.shown(context) == whole[:kept]
        assert await user.listed(context) == [task.id for task in tasks[: kept // 2]]
        session = await user.session(context)
        assert session.applied_seq == session.steered_seq

    async with session_user(plane) as user:
        for batch in range(TENS):
            await asyncio.gather(*(race(user, 10 * batch + index) for index in range(10)))
    print(f"outcomes {dict(outcomes)}")
    assert outcomes["REWIND_IN_FLIGHT"] and outcomes["TASK_STATE_COMPLETED"] >= 10 * TENS


async def test_a_rewind_of_a_running_turn_removes_all_of_its_messages(plane: Plane) -> None:
    """R4: also late copies of a canceled or completed turn; the next turn sees nothing of it. Of ten turns, one has
    ended and one runs for long."""
    rng = random.Random(5)
    states: Counter[str] = Counter()

    async def race(user: SessionUser, place: int) -> None:
        context = uuid4().hex
        first = await user.turn("echo first", context)
        kept = await user.shown(context)
        task = await user.begin("slow 400" if place == 0 else f"echo {'word ' * rng.randint(1, 20)}", context)
        if place == 1:
            await user.at_rest(task.id)
        await asyncio.sleep(rng.uniform(0, 0.03))
        instead = rng.random() < 0.5
        rewound = await user.rewind(invocation(task), context, "echo instead" if instead else "")
        assert texts(rewound.task) == kept
        record = await user.at_rest(task.id)
        assert record.superseded
        states[a2a.TaskState.Name(record.state)] += 1
        expected = [first.id]
        if instead:
            await user.at_rest(rewound.next.task_id)
            expected.append(rewound.next.task_id)
        await user.copied(context)
        shown = await user.shown(context)
        assert shown[:2] == kept and len(shown) == 2 * len(expected)
        assert await user.listed(context) == expected

    async with session_user(plane) as user:
        for _ in range(TENS):
            await asyncio.gather(*(race(user, place) for place in range(10)))
    print(f"states {dict(states)}")
    assert sum(states.values()) == 10 * TENS and len(states) == 2
    assert judge(await held(plane), {}, ()).findings() == []


async def test_of_twenty_sends_and_a_rewind_with_one_expected_version_one_is_accepted(plane: Plane) -> None:
    """R9: any of them; the others change nothing."""
    context = uuid4().hex
    async with session_user(plane) as user:
        first = await user.turn("echo first", context)
        version = (await user.session(context)).version

        async def send() -> xb.SubmitResponse:
            message = a2a.Message(message_id=uuid4().hex, context_id=context, parts=[a2a.Part(text="echo next")])
            request = xb.SubmitRequest(request=a2a.SendMessageRequest(message=message), expected_version=version)
            return await user.executor.Submit(request)

        async def rewind() -> xb.RewindSessionResponse:
            return await user.executor.RewindSession(
                xb.RewindSessionRequest(
                    context_id=context, before_invocation_id=invocation(first), expected_version=version
                )
            )

        answers = await asyncio.gather(*(send() for _ in range(20)), rewind(), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, PlaneError)]
        assert len(refused) == 20 and {error.reason for error in refused} == {"VERSION_MISMATCH"}
        await user.copied(context)
        assert len(await user.listed(context)) in (0, 2)
