"""The messages of a session's tasks, a page at a time: always up to date, however much of them was read before."""

from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
from tests.conformance.task_log import ADA, BOB, Plane, message, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import WORKING
from taskplane.tasks.pages import MessageFilter, TaskFilter
from taskplane.tasks.sql import SqlTaskLog
from taskplane.tasks.sql import conversation as sql


@pytest.fixture
async def other(plane: Plane) -> AsyncIterator[SqlTaskLog]:
    """The same log, read by somebody who writes nothing."""
    async with SqlTaskLog(plane.engine) as log:
        yield log


LAST = ["t4-m1", "t4-final", "d1"]


async def flat(plane: Plane) -> list[a2a.Message]:
    """The conversation, made of whole tasks and by going through all of it."""
    listed = await plane.log.list(ADA, TaskFilter(context_id="c1", by_creation=True, page_size=100))
    found: list[a2a.Message] = []
    for task in listed.tasks:
        own = list(task.history)
        last = task.status.message
        marks = last.metadata.fields
        passing = "kagent_adk_partial" in marks or ("kind" in marks and marks["kind"].string_value == "status-message")
        if last.message_id and not passing and last.message_id not in [each.message_id for each in own]:
            own.append(last)
        found += [each for each in own if each.message_id not in [before.message_id for before in found]]
    return found


async def paged(log: SqlTaskLog, size: int) -> list[a2a.Message]:
    found: list[a2a.Message] = []
    before = ""
    while True:
        page = await log.messages(ADA, MessageFilter(context_id="c1", page_size=size, before=before))
        assert len(page.messages) <= size
        assert (page.first_shown, page.shown_count, set(page.shown_before)) == (0, 0, {0})
        found[:0] = page.messages
        if not page.more:
            return found
        before = page.messages[0].message_id


async def agree(plane: Plane, other: SqlTaskLog) -> list[str]:
    """The ids of the conversation, on which all ways to read it agree."""
    expected = await flat(plane)
    for log in (plane.log, other):
        for size in (1000, 3):
            assert await paged(log, size) == expected
    return [each.message_id for each in expected]


async def test_all_pages_of_messages_equal_the_flattened_tasks_after_each_change(
    plane: Plane, other: SqlTaskLog
) -> None:
    """T5, T6: read after each step by the writing process and by another one."""
    rows = [await plane.create() for _ in range(5)]
    assert await agree(plane, other) == ["t1-m1", "t2-m1", "t3-m1", "t4-m1", "t5-m1"]
    await plane.append(rows[1], status(WORKING, message("so f", "m2", partial=True)))
    text = message("busy", "m3")
    text.metadata.fields["kind"].string_value = "status-message"
    await plane.append(rows[2], status(WORKING, text))
    assert len(await agree(plane, other)) == 5
    await plane.append(rows[1], status(WORKING, message("so far", "m2")))
    await plane.complete(rows[0])
    await plane.pause(rows[3])
    assert (await agree(plane, other))[:4] == ["t1-m1", "t1-final", "t2-m1", "m2"]
    await plane.say(rows[3], "i9")
    await plane.complete(rows[2])
    again = message("again", "t1-m1")
    await plane.append(rows[4], status(WORKING, again))
    assert await agree(plane, other) == [
        *("t1-m1", "t1-final", "t2-m1", "m2", "t3-m1", "t3-final", "t4-m1", "t4-ask-1", "i9-m", "t5-m1")
    ]
    await plane.mark(1, "t3-i1")
    assert "t3-final" not in await agree(plane, other)
    await plane.mark(2)
    assert "t3-final" in await agree(plane, other)
    await plane.log.submit(commands.Delete(scope=ADA, task_id="t1"))
    # A message that it had said first is now said first by another one.
    assert (await agree(plane, other))[-1] == "t1-m1"


async def test_the_messages_of_a_document_are_those_of_its_last_version(plane: Plane, other: SqlTaskLog) -> None:
    """T4, T6: a new task under the id and uid of a deleted task is read again."""
    for step in range(3):
        document = plane.document("d", "x")
        document.task.context_id = "c1"
        document.task.history.extend([message(f"said {step}", f"d{step}"), message("again", "d")])
        await plane.log.submit(document)
        assert await agree(plane, other) == [f"d{step}", "d"]
    row = await plane.log.row(ADA, "d")
    await plane.log.submit(commands.Delete(scope=ADA, task_id="d"))
    for step in range(3):
        document = plane.document("d", "x", uid=row.uid, salt="other")
        document.task.context_id = "c1"
        document.task.history.append(message("anew", f"n{step}"))
        await plane.log.submit(document)
    assert await agree(plane, other) == ["n2"]


async def woven(log: SqlTaskLog, size: int, shown: Sequence[str], ends: Mapping[str, int]) -> list[str]:
    """The ids of the conversation that the messages of the tasks are with those that are shown already."""
    found: list[str] = []
    before = ""
    while True:
        query = MessageFilter(context_id="c1", page_size=size, before=before, shown=shown, ends=ends)
        page = await log.messages(ADA, query)
        ids = list(shown[page.first_shown : page.first_shown + page.shown_count])
        for one, place in reversed(list(zip(page.messages, page.shown_before, strict=True))):
            ids.insert(place, one.message_id)
        assert len(ids) <= size or not all(ids)
        found[:0] = ids
        if not page.more:
            return found
        before = found[0]


async def test_further_messages_of_a_task_follow_its_shown_messages(plane: Plane) -> None:
    """R5, T6: documents and tasks without shown messages come last, in the order of their creation."""
    rows = [await plane.create() for _ in range(4)]
    document = plane.document("d", "x")
    document.task.context_id = "c1"
    document.task.history.append(message("of a runtime", "d1"))
    await plane.log.submit(document)
    for row in rows:
        await plane.complete(row)
    shown = ["pushed", "", "t2-m1", "t1-m1", "direct", "t3-m1", "t3-final"]
    ends = {"t1-i1": 4, "t2-i1": 3, "t3-i1": 7, "gone": 5}
    whole = [*("pushed", "", "t2-m1", "t2-final", "t1-m1", "t1-final", "direct", "t3-m1", "t3-final"), *LAST]
    for size in (1, 2, 3, 5, 1000):
        assert await woven(plane.log, size, shown, ends) == whole
    # Nothing that is copied meanwhile changes its place.
    assert (
        await woven(plane.log, 4, [*shown[:3], "t2-final", *shown[3:]], {"t1-i1": 5, "t2-i1": 4, "t3-i1": 8}) == whole
    )
    assert await woven(plane.log, 2, [], {}) == ["t1-m1", "t1-final", "t2-m1", "t2-final", "t3-m1", "t3-final", *LAST]
    assert (await plane.log.messages(BOB, MessageFilter(context_id="c1"))).messages == []
    with pytest.raises(Invalid) as refused:
        await plane.log.messages(ADA, MessageFilter(context_id="c1", before="none", shown=shown, ends=ends))
    assert refused.value.reason == "NO_SUCH_MESSAGE"
    with pytest.raises(Invalid) as refused:
        await plane.log.messages(ADA, MessageFilter(context_id="c1", page_size=1001))
    assert list(refused.value.fields) == ["page_size"]


async def test_a_page_of_large_messages_ends_early(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only a few tasks are read at once."""
    monkeypatch.setattr(sql, "_PAGE_BYTES", 25_000)
    monkeypatch.setattr(sql, "_SOME_BYTES", 30_000)
    for _ in range(5):
        row = await plane.create()
        await plane.complete(row, "x" * 10_000)
    page = await plane.log.messages(ADA, MessageFilter(context_id="c1"))
    assert [each.message_id for each in page.messages] == ["t4-m1", "t4-final", "t5-m1", "t5-final"]
    assert page.more
    assert len(await paged(plane.log, 1000)) == 10
    shown = [f"t{number}-m1" for number in range(1, 6)]
    query = MessageFilter(context_id="c1", shown=shown, ends={f"t{number}-i1": number for number in range(1, 6)})
    page = await plane.log.messages(ADA, query)
    assert [each.message_id for each in page.messages] == ["t4-final", "t5-final"]
    assert (page.more, page.first_shown, page.shown_count, page.shown_before) == (True, 4, 1, [0, 1])


def test_an_outline_is_read_out_of_a_task() -> None:
    """Its fields have the numbers and names of those of a task."""
    for outline, whole in ((pb.TaskOutline, a2a.Task), (pb.MessageOutline, a2a.Message)):
        for field in outline.DESCRIPTOR.fields:
            assert whole.DESCRIPTOR.fields_by_name[field.name].number == field.number


async def test_messages_are_compared_with_those_of_documents(plane: Plane) -> None:
    """R7, T11: turn and time of each message, and the turns with further messages. Hidden documents and turns count;
    other owners and growing texts do not."""

    def said(message_id: str, turn: str = "", text: str = "x", role: int = a2a.ROLE_AGENT) -> a2a.Message:
        one = message(text, message_id)
        one.role = a2a.Role.ValueType(role)
        if turn:
            one.metadata.fields["adk_invocation_id"].string_value = turn
        return one

    async def save(task_id: str, *history: a2a.Message, growing: a2a.Message | None = None, turn: str = "") -> None:
        document = plane.document(task_id, "x", state=WORKING)
        document.task.context_id = "c1"
        document.task.history.extend(history)
        document.task.status.ClearField("message")
        if growing is not None:
            document.task.status.message.CopyFrom(growing)
            document.task.status.message.metadata.fields["adk_partial"].bool_value = True
        if turn:
            document.task.metadata.fields["adk_invocation_id"].string_value = turn
        await plane.log.submit(document)

    question, answer = said("q", role=a2a.ROLE_USER), said("a", "i1")
    await save("d1", question, answer, growing=said("g", "i9"))
    await save("d2", said("b"), said("c"), turn="i2")
    await save("d3", said("d"))
    cut = commands.MarkSuperseded(scope=ADA, context_id="c1", steered_seq=1, cut=frozenset({"i2"}))
    await plane.log.submit(cut)
    other = said("d", text="other")
    found = await plane.log.compare(ADA, "c1", [question, other, said("b"), said("new")])
    turns, times = zip(*found.messages, strict=True)
    # A document that names no turn is a turn of its own.
    assert (turns[0], turns[1].startswith("document"), *turns[2:]) == ("i1", True, "i2", "")
    assert [bool(time) for time in times] == [True, False, True, False]
    assert found.reduced == ["i1", "i2"]
    whole = [question, answer, said("b"), said("c"), said("d")]
    assert (await plane.log.compare(ADA, "c1", whole)).reduced == []
    for scope, context_id in ((BOB, "c1"), (ADA, "c2"), (ADA, "\0")):
        assert await plane.log.compare(scope, context_id, [question]) == ([("", "")], [])
