"""Status texts: events of a kind of their own, shown while they are news; the newest few are read by an index."""

from dataclasses import replace

import pytest
from tests.conformance.task_log import ADA, Plane, checkpoint, chunk, message, status, status_text
from tests.conformance.test_task_store_cost import plan, statements

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain.kinds import STATUS_TEXT
from taskplane.tasks.domain.task import SUBMITTED, WORKING, Row
from taskplane.tasks.pages import EventFilter, MessageFilter


async def shown(plane: Plane, row: Row) -> str:
    """The text of the task's status."""
    _, task = await plane.log.get(ADA, row.id)
    return "".join(part.text for part in task.status.message.parts)


async def test_p4_a_status_text_is_shown_while_it_is_news_and_never_kept(plane: Plane) -> None:
    """P4: the store marks it, whoever wrote it; no history and no conversation has it, nor does it hide a text that
    grows."""
    row = await plane.create(changes=[])
    taken = await plane.append(row, status_text("Reading", "s1"))
    assert taken.refusal is None
    now = await plane.check(row)
    assert (now.state, now.message_generation) == (WORKING, 1)
    (event,) = [each for each in await plane.all_events(row) if each.kind == STATUS_TEXT]
    said = a2a.StreamResponse.FromString(event.payload).status_update.status
    assert (event.speaks, event.state, said.state) == (False, WORKING, WORKING)
    assert said.message.metadata.fields["kind"].string_value == "status-message"
    assert "taskplane.dev/time" in said.message.metadata.fields
    assert await shown(plane, row) == "Reading"
    await plane.append(row, status_text("Writing", "s2"))
    assert await shown(plane, row) == "Writing"
    await plane.append(row, status(WORKING, message("so f", "m2", partial=True)), status_text("Still writing", "s3"))
    assert await shown(plane, row) == "so f"
    await plane.append(row, status(WORKING, message("so far", "m2")), status_text("Done soon", "s4"))
    assert await shown(plane, row) == "Done soon"
    await plane.complete(row)
    _, task = await plane.log.get(ADA, row.id)
    assert [each.message_id for each in task.history] == [f"{row.id}-m1", "m2"]
    page = await plane.log.messages(ADA, MessageFilter(context_id="c1"))
    assert [each.message_id for each in page.messages] == [f"{row.id}-m1", "m2", f"{row.id}-final"]
    await plane.check(row)


@pytest.mark.parametrize("how", ["state", "none", "partial"])
async def test_what_is_no_status_text_is_refused(plane: Plane, how: str) -> None:
    """P4: it says what a task at work is doing, in a message that is whole."""
    row = await plane.create()
    change = status_text("x", "s1")
    if how == "state":
        change.status_text.status.state = a2a.TASK_STATE_COMPLETED
    elif how == "none":
        change.status_text.status.ClearField("message")
    else:
        change.status_text.status.message.CopyFrom(message("x", "s1", partial=True))
    refusal = (await plane.append(row, change)).refusal
    assert refusal is not None and refusal.reason == "NOT_A_STATUS_TEXT"
    await plane.check(row)


async def test_a_status_text_is_none_after_a_pause_or_the_end(plane: Plane) -> None:
    """P4: they stop when the run ends."""
    row = await plane.create()
    await plane.pause(row)
    fenced = await plane.append(row, status_text("Waiting", "s1"))
    assert fenced.refusal is not None and fenced.refusal.reason == "FENCED"
    await plane.cancel(row)
    ended = await plane.append(row, status_text("Waiting", "s1"))
    assert ended.refusal is not None and ended.refusal.reason == "TERMINAL"


async def test_the_newest_status_texts_are_read_by_one_query_along_an_index(plane: Plane) -> None:
    """P4, C13: a restarted run asks for the last five, whatever else is in the log."""
    row = await plane.create()
    for number in range(7):
        await plane.append(row, status_text(f"s{number}", f"s{number}"), *(chunk("x", f"a{n}") for n in range(20)))
    query = EventFilter(kinds=[int(pb.EVENT_KIND_STATUS_TEXT)], newest_first=True, limit=5)
    with statements() as seen:
        _, events = await plane.log.events(ADA, row.id, query)
    texts = [a2a.StreamResponse.FromString(each.payload).status_update.status.message.message_id for each in events]
    assert texts == ["s6", "s5", "s4", "s3", "s2"]
    # The first one looks the task up.
    assert len(seen) == 2
    found = await plane.engine.write(plan, *seen[1])
    assert "event_status_text" in found and "TEMP B-TREE" not in found and "Sort" not in found, found


async def test_every_line_of_progress_is_read_by_one_query_along_an_index(plane: Plane) -> None:
    """P4, P10, C13: those of a writer and those that the agent yields, a page at a time, past all that it said."""
    row = await plane.create()
    for number in range(6):
        line = message(f"line {number}", f"s{number}")
        line.metadata.update({"kind": "status-message"})
        told = status(WORKING, line) if number % 2 else status_text(f"line {number}", f"s{number}")
        await plane.append(row, told, *(status(WORKING, message("x", "m", partial=True)) for _ in range(20)))
        await plane.append(row, status(WORKING, message("x" * 20, "m")))
    query = EventFilter(status_messages=True, limit=4)
    with statements() as seen:
        _, first = await plane.log.events(ADA, row.id, query)
    assert len(seen) == 2
    found = await plane.engine.write(plan, *seen[1])
    assert "event_status_message" in found and "TEMP B-TREE" not in found and "Sort" not in found, found
    _, rest = await plane.log.events(ADA, row.id, replace(query, after_generation=first[-1].generation))
    lines = [a2a.StreamResponse.FromString(each.payload).status_update.status.message for each in (*first, *rest)]
    assert [each.message_id for each in lines] == [f"s{number}" for number in range(6)]
    assert [len(first), len(rest)] == [4, 2]


async def test_a_lost_attempt_is_no_reason_to_say_a_status_text_again(plane: Plane) -> None:
    """P4: the texts of the lost attempt are still there to be read; they are no messages that it leaves behind."""
    row = await plane.create(on_orphan=int(pb.ON_ORPHAN_RERUN))
    await plane.append(row, status_text("Reading", "s1"), checkpoint(b"1"))
    again = await plane.orphan(row)
    assert again is not None and again.state == SUBMITTED
    query = EventFilter(kinds=[STATUS_TEXT], newest_first=True, limit=5)
    assert len((await plane.log.events(ADA, row.id, query))[1]) == 1
    (requeued,) = [each for each in await plane.all_events(row) if each.state == SUBMITTED and each.generation > 1]
    lost = a2a.StreamResponse.FromString(requeued.payload).status_update.metadata.fields["taskplane.dev/lost_messages"]
    assert not lost.list_value.values
