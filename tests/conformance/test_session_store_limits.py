"""Requests that the session log refuses to store or to list (`sessions.operation_checks`), on every engine."""

from typing import Any

import pytest
from tests.conformance.session_log import (
    ADA,
    Sessions,
    event,
    message,
    pushed,
    rewind,
    user,
)

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.store import EntryFilter


def create(context_id: str, **values: Any) -> commands.Create:
    return commands.Create(scope=ADA, context_id=context_id, **values)


BAD_ENTRIES = {
    "no id": (pb.Entry(kind=pb.ENTRY_KIND_MESSAGE, message=message("x")), "id"),
    "long id": (user("x" * 256), "id"),
    "NUL in an id": (user("a\0b"), "id"),
    "control character in a task": (user("a", task_id="t\n"), "task_id"),
    "control character in an actor": (user("a", actor="\x1b"), "actor"),
    "no kind": (pb.Entry(id="a", message=message("x")), "kind"),
    "unknown kind": (pb.Entry(id="a", kind=99, message=message("x")), "kind"),  # type: ignore[arg-type]
    "message without one": (pb.Entry(id="a", kind=pb.ENTRY_KIND_MESSAGE), "message"),
    "message with data": (pb.Entry(id="a", kind=pb.ENTRY_KIND_MESSAGE, data="{}"), "data"),
    "event without data": (pb.Entry(id="a", kind=pb.ENTRY_KIND_EVENT), "data"),
    "pushed without": (pb.Entry(id="a", kind=pb.ENTRY_KIND_PUSHED), "pushed"),
    "rewind with pushed": (pb.Entry(id="a", kind=pb.ENTRY_KIND_REWIND, target="x", pushed=pb.Messages()), "pushed"),
    "rewind of nothing": (rewind("", "r"), "target"),
    "void of nothing": (pb.Entry(id="a", kind=pb.ENTRY_KIND_VOID), "target"),
    "half a hash": (user("a", request_hash=b"x"), "request_hash"),
    "negative generation": (user("a", generation=-1), "generation"),
}


@pytest.mark.parametrize("case", BAD_ENTRIES)
async def test_an_entry_that_could_never_be_stored_is_refused_and_nothing_is_stored(
    sessions: Sessions, case: str
) -> None:
    entry, field = BAD_ENTRIES[case]
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", user("fine"), entry)
    assert next(iter(refused.value.fields)) == f"entries[1].{field}"
    assert all(field.startswith("entries[1]") for field in refused.value.fields)
    assert list((await sessions.log.list(ADA, 10, "")).sessions) == []


async def test_ids_may_be_long_and_strange_as_long_as_they_have_no_control_characters(sessions: Sessions) -> None:
    long = [letter * 255 for letter in "abcde"]
    strange = [f"{letter}\N{NO-BREAK SPACE}\N{SNOWMAN}\U000e0001" for letter in "abcde"]
    for count, (entry_id, invocation_id, task_id, first, actor) in enumerate((long, strange), 1):
        entry = user(entry_id, task_id=task_id, task_invocation_id=first, actor=actor)
        entry.invocation_id = invocation_id
        assert (await sessions.append("s", entry)).session.seq == count
        (stored,) = await sessions.entries("s", task_id=task_id)
        assert stored[4:5] + stored[6:9] + stored[10:11] == (entry_id, invocation_id, task_id, first, actor)
        one = user("x", task_id=task_id, task_invocation_id=first, actor=actor + "\x7f")
        with pytest.raises(Invalid) as refused:
            await sessions.append("s", one)
        assert list(refused.value.fields) == ["entries[0].actor"]


@pytest.mark.parametrize(
    ("objects", "lists", "readable"),
    [(24, 0, True), (26, 2, True), (27, 2, False), (28, 0, True), (29, 0, False), (33, 0, False), (40, 0, False)],
)
async def test_an_entry_that_could_not_be_read_back_is_refused(
    sessions: Sessions, objects: int, lists: int, readable: bool
) -> None:
    """A message can be nested too deeply for any parser of protobuf."""
    request = pb.AppendEntriesRequest(context_id="s", create=pb.NewSession())
    entry = request.entries.add(id="A", kind=pb.ENTRY_KIND_MESSAGE, invocation_id="A")
    value = entry.message.parts.add().data
    for _ in range(objects):
        value = value.struct_value.fields["deeper"]
    for _ in range(lists):
        value = value.list_value.values.add()
    value.string_value = "bottom"
    if not readable:
        with pytest.raises(Invalid) as refused:
            wire.append(request, ADA)
        assert refused.value.reason == "TOO_DEEP"
        return
    await sessions.log.append(wire.append(request, ADA))
    page = await sessions.log.entries(ADA, "s", EntryFilter())
    reply = pb.ListEntriesResponse(entries=[wire.entry(stored) for stored in page.entries])
    assert pb.ListEntriesResponse.FromString(reply.SerializeToString()) == reply
    seen = pb.WatchEntriesResponse(entries=wire.entries(page))
    assert pb.WatchEntriesResponse.FromString(seen.SerializeToString()) == seen
    _, said = await sessions.log.conversation(ADA, "s")
    task = pb.GetSessionTaskResponse(task=wire.session_task(page.session, said))
    assert pb.GetSessionTaskResponse.FromString(task.SerializeToString()) == task


async def test_text_that_no_database_may_hold_is_refused_everywhere(sessions: Sessions) -> None:
    """U+0000: PostgreSQL refuses it with an error of its own, SQLite stores it."""
    for asked, field in (
        (sessions.log.create(create("s", title="a\0b")), "title"),
        (sessions.log.create(create("s", source="a\0b")), "source"),
        (sessions.log.create(create("s", agent="a\0b")), "agent"),
        (sessions.log.create(create("a\0b")), "context_id"),
        (sessions.log.create(create("s", title="x" * 1001)), "title"),
        (sessions.log.create(create("")), "context_id"),
        (sessions.append("s", user("A"), create=pb.NewSession(title="a\0b")), "create.title"),
        (sessions.log.session(ADA, "a\0b"), "context_id"),
        (sessions.log.session(ADA, "x" * 256), "context_id"),
        (sessions.log.conversation(ADA, "a\0b"), "context_id"),
        (sessions.log.entries(ADA, "a\0b", EntryFilter()), "context_id"),
        (sessions.log.entries(ADA, "s", EntryFilter(task_id="a\0b")), "task_id"),
        (sessions.log.delete(commands.Delete(scope=ADA, context_id="a\0b")), "context_id"),
    ):
        with pytest.raises(Invalid) as refused:
            await asked
        assert list(refused.value.fields) == [field]
    strange = event("e", '{"invocation_id": "a\\u0000b", "actions": {"rewind_before_invocation_id": "\\ud800"}}')
    await sessions.append("s", strange)
    (entry,) = await sessions.entries("s")
    assert (entry.invocation_id, entry.target) == ("", "")
    odd = pushed("p", message("x\0", invocation="a\0b"))
    await sessions.append("s", odd)
    assert await sessions.said("s") == ["x\0"]
    assert (await sessions.append("s", event("f", "\0"))).session.seq == 3


@pytest.mark.parametrize("context_id", [".", ".."])
async def test_a_session_that_no_path_can_name_is_not_begun(sessions: Sessions, context_id: str) -> None:
    """S: in whatever way; whoever sends a path takes such a part out of it."""
    with pytest.raises(Invalid) as refused:
        await sessions.append(context_id, user("A"))
    assert set(refused.value.fields) == {"context_id"}
    with pytest.raises(Invalid):
        await sessions.log.create(create(context_id))
    with pytest.raises(Invalid):
        await sessions.log.stage_import(ADA, context_id, "i", 1, b"")
    await sessions.append("s", user("A"))
    with pytest.raises(Invalid):
        await sessions.log.fork(commands.Fork(scope=ADA, context_id="s", new_context_id=context_id))


async def test_page_sizes_and_filters_that_cannot_be_given_are_refused(sessions: Sessions) -> None:
    await sessions.append("s", user("A"))
    for size in (0, -1, 1001):
        with pytest.raises(Invalid) as refused:
            await sessions.log.list(ADA, size, "")
        assert list(refused.value.fields) == ["page_size"]
        with pytest.raises(Invalid) as refused:
            await sessions.log.entries(ADA, "s", EntryFilter(page_size=size))
        assert list(refused.value.fields) == ["page_size"]
    for wrong, field in (
        (EntryFilter(distinct=True), "distinct"),
        (EntryFilter(skip=1), "skip"),
        (EntryFilter(effective=True, skip=-1), "skip"),
        (EntryFilter(effective=True, message_id="m"), "message_id"),
        (EntryFilter(message_id="a\0b"), "message_id"),
    ):
        with pytest.raises(Invalid) as refused:
            await sessions.log.entries(ADA, "s", wrong)
        assert list(refused.value.fields) == [field]


async def test_too_many_entries_or_one_id_twice_in_a_call_are_refused(sessions: Sessions) -> None:
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", *(user(f"i{n}") for n in range(1001)))
    assert refused.value.fields == {"entries": "must have at most 1,000 elements"}
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", user("A"), user("A"))
    assert refused.value.fields == {"entries": "must have different ids"}
    assert (await sessions.append("s", *(user(f"i{n}") for n in range(1000)))).session.seq == 1000
