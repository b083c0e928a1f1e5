"""Document tasks, copies into sessions, and deletion; managed and document tasks compared. C1, C6, C16."""

import asyncio

import pytest
from tests.conformance.task_log import ADA, BOB, Plane, changed, chunk, message, only, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.kinds import REPLACED
from taskplane.tasks.domain.task import CANCELED, COMPLETED, DOCUMENT, WORKING, Row
from taskplane.tasks.pages import EventFilter


async def test_each_replacement_of_a_document_is_one_generation(plane: Plane) -> None:
    """C1: the row has the document; its events have no content."""
    first = await plane.put("doc", "one")
    second = await plane.put("doc", "two", COMPLETED)
    third = await plane.put("doc", "three", WORKING)
    assert [first.created, second.created, third.created] == [True, False, False]
    assert [done.row.generation for done in (first, second, third)] == [1, 2, 3]
    row, task = await plane.log.get(ADA, "doc")
    assert (row.origin, row.state, row.fence, row.terminal_generation) == (DOCUMENT, WORKING, 0, None)
    assert task.artifacts[0].parts[0].text == "three"
    _, events = await plane.log.events(ADA, "doc", EventFilter())
    assert [(event.generation, event.kind, event.payload) for event in events] == [
        (1, REPLACED, b""),
        (2, REPLACED, b""),
        (3, REPLACED, b""),
    ]


async def test_a_replacement_that_expects_another_generation_changes_nothing(plane: Plane) -> None:
    """T4: without an expected generation, the last write wins."""
    await plane.put("doc", "one")
    await plane.put("doc", "two", expected_generation=1)
    with pytest.raises(Conflict):
        await plane.put("doc", "three", expected_generation=1)
    row, task = await plane.log.get(ADA, "doc")
    assert (row.generation, task.artifacts[0].parts[0].text) == (2, "two")
    with pytest.raises(Conflict) as refused:
        await plane.log.submit(commands.Delete(scope=ADA, task_id="doc", expected_generation=1))
    assert (refused.value.reason, refused.value.metadata) == ("GENERATION_MISMATCH", {"generation": "2"})
    await plane.log.submit(commands.Delete(scope=ADA, task_id="doc", expected_generation=2))


async def test_all_new_documents_of_one_batch_are_stored(plane: Plane) -> None:
    """C1: of two documents with one id in a batch, the second replaces the first."""
    answers = await plane.log.submit_all([plane.document(f"d{number % 5}", str(number)) for number in range(10)])
    assert [only(commands.Done, answer).created for answer in answers] == [True] * 5 + [False] * 5
    for number in range(5):
        row, task = await plane.log.get(ADA, f"d{number}")
        assert (row.generation, task.artifacts[0].parts[0].text) == (2, str(number + 5))


async def test_a_document_is_never_run_continued_or_canceled(plane: Plane) -> None:
    """C7: only its external runtime may change a document."""
    row = (await plane.put("doc", "one")).row
    for op in (
        commands.Cancel(scope=ADA, task_id="doc"),
        plane.saying(row, "i1"),
        commands.MarkCopied(task_uid=row.uid, generation=1),
    ):
        with pytest.raises(Refused) as refused:
            await plane.log.submit(op)
        assert refused.value.reason == "NOT_MANAGED"
    appended = await plane.log.submit(
        commands.Append(actor="x", task_uid=row.uid, fence=0, number=1, changes=changed(chunk("x")))
    )
    refusal = only(commands.Appended, appended).refusal
    assert refusal is not None and refusal.reason == "NOT_MANAGED"
    assert await plane.claim(row) is None


async def test_a_managed_task_is_not_replaced_and_an_id_belongs_to_one_owner(plane: Plane) -> None:
    """T4: a document replaces neither a managed task nor a task of another owner. A new managed task does not replace a
    document."""
    await plane.create(name="run")
    await plane.put("doc", "one")
    with pytest.raises(Refused) as managed:
        await plane.put("run", "mine now")
    assert managed.value.reason == "MANAGED"
    with pytest.raises(AlreadyExists):
        await plane.put("doc", "mine now", scope=BOB)
    with pytest.raises(AlreadyExists):
        await plane.log.submit(plane.creation(name="doc", invocation_id="new"))


async def test_a_deleted_task_is_gone_with_its_events(plane: Plane) -> None:
    """C16, W13: managed and document tasks; a running task is canceled first, in the same commit."""
    live, ended, document = await plane.create(), await plane.create(), (await plane.put("doc", "one")).row
    await plane.complete(ended)
    item = await plane.item(live, chunk("late"))
    plane.commits.clear()
    for row in (live, ended, document):
        await plane.log.submit(commands.Delete(scope=ADA, task_id=row.id))
        with pytest.raises(NotFound):
            await plane.log.get(ADA, row.id)
        with pytest.raises(NotFound):
            await plane.log.submit(commands.Delete(scope=ADA, task_id=row.id))
    assert [[change.row.uid for change in commit.deleted] for commit in plane.commits] == [
        [live.uid],
        [ended.uid],
        [document.uid],
    ]
    assert plane.commits[0].deleted[0].row.state == CANCELED
    assert [event.generation for event in plane.commits[0].events] == [3]
    late = only(commands.Appended, await plane.log.submit(item)).refusal
    assert isinstance(late, NotFound)
    left = await plane.engine.read(lambda conn: conn.exec_driver_sql("SELECT count(*) FROM event").scalar_one())
    assert left == 0
    assert (await plane.create(name=live.id)).generation == 2


async def test_a_task_of_another_owner_can_be_neither_read_nor_changed(plane: Plane) -> None:
    """A task of another owner is answered like one that does not exist."""
    row = await plane.create()
    for op in (commands.Delete(scope=BOB, task_id=row.id), commands.Cancel(scope=BOB, task_id=row.id)):
        with pytest.raises(NotFound):
            await plane.log.submit(op)
    for read in (plane.log.get(BOB, row.id), plane.log.row(BOB, row.id), plane.log.events(BOB, row.id, EventFilter())):
        with pytest.raises(NotFound):
            await read
    assert (await plane.check(row)).state == WORKING


async def test_a_task_at_rest_is_uncopied_until_its_messages_are_marked(plane: Plane) -> None:
    """C6: the list has the tasks at rest whose messages are not marked as copied, oldest first, of one session or of
    all."""
    first, second = await plane.create(), await plane.create(context_id="c2")
    for row in (first, second):
        await plane.append(row, status(WORKING, message("the answer", f"{row.id}-m2")))
        assert row.uid not in [each.uid for each in await plane.log.uncopied(None, 10)]
        await plane.complete(row, "done")
    everywhere = await plane.log.uncopied(None, 10)
    assert [row.uid for row in everywhere] == [first.uid, second.uid]
    assert [row.uid for row in await plane.log.uncopied(None, 1)] == [first.uid]
    assert [row.uid for row in await plane.log.uncopied(("", "ada", "c2"), 10)] == [second.uid]
    assert await plane.log.uncopied(("", "bob", "c2"), 10) == []
    assert await plane.log.uncopied(("", "ada", "c\0"), 10) == []
    await plane.log.submit(commands.MarkCopied(task_uid=first.uid, generation=everywhere[0].message_generation))
    assert [row.uid for row in await plane.log.uncopied(None, 10)] == [second.uid]
    await plane.check(first)


async def test_uncopied_tasks_are_listed_page_by_page(plane: Plane) -> None:
    """C6: a page may end between tasks with the same time, so a sweep can go past tasks that it cannot copy."""
    rows = [await plane.create(context_id=f"c{number % 2}") for number in range(5)]
    await asyncio.gather(*(plane.pause(row) for row in rows))
    for context in (None, ("", "ada", "c0")):
        found: list[Row] = []
        while page := await plane.log.uncopied(context, 2, (found[-1].status_at, found[-1].uid) if found else None):
            assert len(page) <= 2
            found += page
        assert sorted(row.uid for row in found) == sorted(row.uid for row in (rows if context is None else rows[::2]))
        assert found == sorted(found, key=lambda row: (row.status_at, row.uid))


async def test_a_paused_task_is_uncopied_and_a_running_one_is_not(plane: Plane) -> None:
    """C6: the log of a task at rest does not grow, so any executor may copy it."""
    row = await plane.create()
    await plane.pause(row)
    assert [each.uid for each in await plane.log.uncopied(None, 10)] == [row.uid]
    await plane.say(row, "i2")
    assert await plane.log.uncopied(None, 10) == []


async def test_the_copied_generation_never_falls_or_exceeds_the_head(plane: Plane) -> None:
    """C6: an appended item may report a copied generation, too. A lower one changes nothing."""
    row = await plane.create()
    await plane.append(row, status(WORKING, message("so", "m2")))
    assert (await plane.append(row, chunk("x"), copied_generation=3)).refusal is None
    for generation in (1, 3):
        answer = await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=generation))
        assert only(commands.Done, answer).row.copied_generation == 3
    with pytest.raises(Invalid):
        await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=9))
    with pytest.raises(NotFound):
        await plane.log.submit(commands.MarkCopied(task_uid="nobody", generation=1))


async def test_a_document_with_an_unknown_state_or_without_a_context_is_refused(plane: Plane) -> None:
    """T4: a missing state is accepted, and the document is stored unchanged."""
    for wrong in (a2a.Task(id="d", context_id=""), a2a.Task(id="d", context_id="c", status=a2a.TaskStatus(state=77))):  # type: ignore[arg-type]
        with pytest.raises(PlaneError):
            await plane.log.submit(commands.Put(scope=ADA, uid="u", salt="s", task=wrong))
    done = await plane.log.submit(commands.Put(scope=ADA, uid="u", salt="s", task=a2a.Task(id="d", context_id="c")))
    assert only(commands.Done, done).row.state == 0
