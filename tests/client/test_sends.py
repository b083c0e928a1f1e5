"""Sends with lost answers, and refused sends, with a real gateway."""

import asyncio

import pytest
from tests.gateway.plane import Plane, fresh
from tests.support.cutting import CuttingProxy
from tests.support.ports import refusing_port

from taskplane.client import BadUsage, Client, Declined, Ended, FullTask, Message, Missing, Unreachable, user_message

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def tasks_of(plane: Plane, session: str) -> list[str]:
    async with Client(plane.gateway.url) as client:
        return [task.id async for task in client.tasks(100, contextId=session)]


@pytest.mark.parametrize("cut_after", [1, 100, 400])
async def test_c10_a_keyed_send_with_a_lost_answer_makes_one_task(
    plane: Plane, proxy: CuttingProxy, cut_after: int
) -> None:
    """The connection breaks before, within and after the head of the answer; the client sends again by itself."""
    session = fresh()
    proxy.cut_after = cut_after
    async with Client(f"http://127.0.0.1:{proxy.port}") as client:
        task = await client.send("hello", key=fresh(), session=session)
    assert proxy.cuts == 1
    assert isinstance(task, FullTask)
    assert (task.state, await tasks_of(plane, session)) == ("completed", [task.id])


async def test_c10_a_restarted_program_sends_again_with_its_key_and_gets_the_same_task(
    plane: Plane, proxy: CuttingProxy
) -> None:
    key, session = fresh(), fresh()
    proxy.cut_after = 1
    async with Client(f"http://127.0.0.1:{proxy.port}", give_up_after=0.0) as lost:
        with pytest.raises(Unreachable):
            await lost.send("hello", key=key, session=session)
    async with Client(plane.gateway.url) as client:
        task = await client.send("hello", key=key, session=session)
        again = await client.send("hello", key=key, session=session)
    assert isinstance(task, FullTask)
    assert isinstance(again, FullTask)
    assert [task.id] == [again.id] == await tasks_of(plane, session)


async def test_c10_sends_with_one_key_at_the_same_time_make_one_task(plane: Plane) -> None:
    key, session = fresh(), fresh()
    async with Client(plane.gateway.url) as client:
        answers = await asyncio.gather(*(client.send("hello", key=key, session=session) for _ in range(20)))
    assert len({answer.id for answer in answers}) == 1
    assert len(await tasks_of(plane, session)) == 1


async def test_a_key_of_another_message_is_refused(plane: Plane) -> None:
    key = fresh()
    async with Client(plane.gateway.url) as client:
        await client.send("hello", key=key)
        with pytest.raises(Declined) as refused:
            await client.send("good bye", key=key)
    assert refused.value.reason == "KEY_REUSED"
    assert refused.value.code is not None
    assert not refused.value.retryable


async def test_a_direct_answer_is_a_message(plane: Plane) -> None:
    async with Client(plane.gateway.url) as client:
        answer = await client.send("message hi")
        assert isinstance(answer, Message)
        (received,) = [each async for each in client.stream("message hi")]
    assert (answer.text, received.text, received.cursor) == ("hi", "hi", "")


async def test_i1_a_waiting_task_is_answered_and_an_ended_one_refuses(plane: Plane) -> None:
    async with Client(plane.gateway.url) as client:
        asked = await client.send("ask")
        assert isinstance(asked, FullTask)
        answered = await client.send("blue", task=asked.id)
        assert isinstance(answered, FullTask)
        assert (answered.id, answered.state) == (asked.id, "completed")
        with pytest.raises(Ended) as ended:
            await client.send("red", task=asked.id)
        assert ended.value.reason == "TERMINAL"
        with pytest.raises(Missing) as missing:
            await client.get("no-such-task")
    assert (missing.value.code, missing.value.reason) == (-32001, "TASK_NOT_FOUND")


async def test_a_session_beside_a_message_object_is_refused(plane: Plane) -> None:
    async with Client(plane.gateway.url) as client:
        with pytest.raises(BadUsage, match="contextId") as refused:
            await client.send(user_message("hello"), session="s")
    assert refused.value.reason == "BAD_MESSAGE"


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", "tab\t", " space", "k" * 256])
async def test_a_key_that_no_header_carries_is_refused_before_it_is_sent(key: str) -> None:
    with refusing_port() as port:
        async with Client(f"http://127.0.0.1:{port}") as client:
            for call in (client.send("hello", key=key), anext(client.stream("hello", key=key))):
                with pytest.raises(BadUsage) as refused:
                    await call
                assert refused.value.reason == "BAD_KEY"


async def test_a_cursor_that_no_header_carries_is_refused_before_it_is_sent() -> None:
    with refusing_port() as port:
        async with Client(f"http://127.0.0.1:{port}") as client:
            for first in (anext(client.resume("t", "ü-1")), anext(client.log.events("t", after="a\n1"))):
                with pytest.raises(BadUsage) as refused:
                    await first
                assert refused.value.reason == "BAD_HEADER"


async def test_a_limit_of_zero_asks_for_nothing() -> None:
    with refusing_port() as port:
        async with Client(f"http://127.0.0.1:{port}") as client:
            assert [task async for task in client.tasks(0)] == []
            assert await client.sessions.find(limit=0) == []


async def test_an_unknown_agent_is_missing_and_a_named_one_answers(plane: Plane) -> None:
    async with Client(plane.gateway.url, agent="nobody") as client:
        with pytest.raises(Missing) as missing:
            await client.send("hello")
        assert missing.value.suggestion
        assert isinstance(await client.agent("demo").send("hello"), FullTask)


async def test_a_stream_has_each_text_once_and_its_pieces_on_request(plane: Plane) -> None:
    """Without growing texts, a program that prints `text` prints the answer once."""
    async with Client(plane.gateway.url) as client:
        assert [each.text async for each in client.stream("one two three") if each.text] == ["one two three"]
    async with Client(plane.gateway.url, growing_text=True) as growing:
        said = [each async for each in growing.stream("one two three") if each.text]
    assert len(said) > 2


async def test_r4_a_session_is_read_rewound_and_forked(plane: Plane) -> None:
    session = fresh()
    async with Client(plane.gateway.url) as client:
        await client.send("one", session=session)
        await client.send("two", session=session)
        messages = await client.sessions.messages(session)
        second = messages[2]["metadata"]["kagent_invocation_id"]
        await client.sessions.rewind(session, second)
        assert [each["parts"][0]["text"] for each in await client.sessions.messages(session)] == ["one", "one"]
        await client.sessions.undo_rewind(session)
        assert len(await client.sessions.messages(session)) == 4
        fork = await client.sessions.fork(session, before=second)
        assert len(await client.sessions.messages(fork["id"])) == 2
        assert {session, fork["id"]} <= {each["id"] for each in await client.sessions.find(limit=1_000)}
        await client.sessions.delete(session)
        with pytest.raises(Missing):
            await client.sessions.get(session)
