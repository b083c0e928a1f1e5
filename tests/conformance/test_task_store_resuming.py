"""What a run leaves for the next one: checkpoints, artifacts and messages, the options of its turn, its figures."""

import json

import pytest
from tests.conformance.task_log import (
    ADA,
    Plane,
    changed,
    checkpoint,
    chunk,
    message,
    only,
    status,
    status_text,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.kinds import CHECKPOINT, STATUS
from taskplane.tasks.domain.task import COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING, Row
from taskplane.tasks.exporting import exported
from taskplane.tasks.importing import TaskReader
from taskplane.tasks.pages import EventFilter

RESUME = int(pb.ON_ORPHAN_RESUME)
MOST = 64 * 1024


async def kept(plane: Plane, row: Row) -> bytes | None:
    """The newest checkpoint, as a run reads it."""
    at = (await plane.log.row_by_uid(row.uid)).checkpoint_generation
    if at is None:
        return None
    query = EventFilter(kinds=[CHECKPOINT], after_generation=at - 1, limit=1)
    (event,) = (await plane.log.events(ADA, row.id, query))[1]
    return event.payload


async def test_a_checkpoint_is_an_event_that_the_task_does_not_show(plane: Plane) -> None:
    """C9: opaque bytes, also ones that are no text; the newest one stands in the row, after a pause as well."""
    row = await plane.create()
    assert await kept(plane, row) is None
    before = await plane.log.get(ADA, row.id)
    await plane.append(row, checkpoint(b"\x00\xff"), checkpoint(b"2"))
    now = await plane.check(row)
    assert (now.checkpoint_generation, await kept(plane, row)) == (now.generation, b"2")
    assert (await plane.log.get(ADA, row.id))[1] == before[1]
    await plane.append(row, checkpoint(b"3"), status(WORKING, message("x", "m2")))
    await plane.pause(row)
    await plane.say(row, "i2")
    await plane.claim(row)
    assert await kept(plane, row) == b"3"
    await plane.append(row, checkpoint(b""))
    assert await kept(plane, row) == b""
    await plane.check(row)


async def test_a_checkpoint_has_at_most_64_kib(plane: Plane) -> None:
    """C9: one that is larger is refused, with its item only."""
    row, other = await plane.create(), await plane.create()
    items = [await plane.item(row, checkpoint(b"x" * (MOST + 1))), await plane.item(other, checkpoint(b"x" * MOST))]
    first, second = [only(commands.Appended, answer) for answer in await plane.log.submit_all(items)]
    assert first.refusal is not None and first.refusal.reason == "CHECKPOINT_TOO_LARGE"
    assert second.refusal is None
    assert await kept(plane, other) == b"x" * MOST


async def test_a_task_that_resumes_keeps_what_its_lost_attempt_made(plane: Plane) -> None:
    """C9: artifacts and messages stay, and go on; the text that was open becomes a message marked interrupted."""
    row = await plane.create(on_orphan=RESUME)
    await plane.append(
        row,
        chunk("one", "a"),
        chunk("two", "b"),
        status(WORKING, message("First.", "m2")),
        checkpoint(b"half"),
        status(WORKING, message("Seco", "m3", partial=True)),
    )
    queued = await plane.orphan(row)
    assert queued is not None and (queued.state, queued.attempt, queued.partial_id) == (SUBMITTED, 1, None)
    assert (queued.ready_at or 0) > 0 and queued.lease_owner is None
    _, task = await plane.log.get(ADA, row.id)
    assert [part.text for each in task.artifacts for part in each.parts] == ["one", "two"]
    assert [each.message_id for each in task.history] == [f"{row.id}-m1", "m2", "m3"]
    assert all("taskplane.dev/lost_attempt" not in each.metadata.fields for each in task.history)
    assert task.history[-1].metadata.fields["interrupted"].bool_value
    assert await kept(plane, row) == b"half"
    assert await plane.claim(row) is not None
    # The one written to last is known from the row, the other from the log.
    await plane.append(row, status(WORKING))
    taken = await plane.append(row, chunk(" more", "b", append=True), chunk(" more", "a", append=True))
    assert taken.refusal is None
    await plane.complete(row)
    now, task = await plane.log.get(ADA, row.id)
    assert [part.text for each in task.artifacts for part in each.parts] == ["one more", "two more"]
    assert (now.state, now.attempt) == (COMPLETED, 2)
    await plane.check(row)


async def test_a_task_that_resumes_is_tried_so_often_and_then_fails(plane: Plane) -> None:
    """C9: one that kills its process each time does not do so for ever."""
    row = await plane.create(on_orphan=RESUME, max_attempts=2)
    await plane.append(row, checkpoint(b"1"))
    await plane.orphan(row)
    await plane.claim(row)
    await plane.append(row, checkpoint(b"2"))
    ended = await plane.orphan(row)
    assert ended is not None and ended.state == FAILED
    _, task = await plane.log.get(ADA, row.id)
    assert task.status.message.metadata.fields["reason"].string_value == "POISON"
    await plane.check(row)


async def test_checkpoints_and_status_texts_of_an_ended_task_may_be_trimmed(plane: Plane) -> None:
    """C16: nobody goes on from them any more."""
    row = await plane.create()
    await plane.append(row, status_text("Reading", "s1"), checkpoint(b"1"), chunk("x"))
    await plane.complete(row)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=6))
    before = (await plane.log.get(ADA, row.id))[1]
    op = commands.Trim(task_uid=row.uid, ended_before=1 << 60, at_most=500)
    assert only(commands.Trimmed, await plane.log.submit(op)).events == 3
    assert [each.kind for each in await plane.all_events(row)] == [1, STATUS, STATUS]
    assert (await plane.log.get(ADA, row.id))[1] == before


async def test_the_options_of_a_turn_are_kept_with_its_message(plane: Plane) -> None:
    """C2, I1: they survive the queue and a pause; their bytes count as the task's."""
    first = pb.TurnOptions(accepted_output_modes=["text/plain"], extensions=["urn:x"]).SerializeToString()
    row = await plane.queued(options=first)
    assert row.event_bytes > len(first)
    await plane.claim(row)
    await plane.append(row, status(WORKING))
    await plane.pause(row)
    second = pb.TurnOptions(extensions=["urn:y"])
    second.metadata.fields["k"].string_value = "v"
    op = plane.saying(row, "i2")
    op.options = second.SerializeToString()
    await plane.log.submit(op)
    events = await plane.all_events(row)
    assert [each.options for each in events if each.options is not None] == [first, second.SerializeToString()]
    now = await plane.log.row_by_uid(row.uid)
    assert now.event_bytes == sum(len(each.payload) + len(each.options or b"") for each in events)


def used(change: pb.Change, **figures: float) -> pb.Change:
    usage = change.status.metadata.fields["taskplane.dev/usage"].struct_value.fields
    for name, value in figures.items():
        usage[name].number_value = value
    return change


async def test_the_figures_of_all_runs_are_added_up_in_the_task(plane: Plane) -> None:
    """P9: key by key, by every way to end or pause a run; the same for who folds the log and who reads the task."""
    row = await plane.create()
    asked = used(status(INPUT_REQUIRED, message("?", "m2")), input=100, seconds=0.5)
    await plane.append(row, asked, consumed_generation=1)
    await plane.check(row)
    await plane.say(row, "i2")
    await plane.claim(row)
    # Figures on the way are no run's.
    await plane.append(row, used(status(WORKING), input=7))
    await plane.append(row, used(status(FAILED, message("no", "m3")), input=11, output=3))
    _, task = await plane.log.get(ADA, row.id)
    found = task.metadata.fields["taskplane.dev/usage"].struct_value.fields
    assert {name: figure.number_value for name, figure in found.items()} == {"input": 111, "output": 3, "seconds": 0.5}
    await plane.check(row)


async def test_artifact_metadata_is_merged_and_extensions_are_united(plane: Plane) -> None:
    """P5: over the chunks of an artifact, key by key; a new version begins anew."""

    def described(text: str, extensions: list[str], *, append: bool, **metadata: object) -> pb.Change:
        change = chunk(text, append=append)
        change.artifact.artifact.metadata.update(json.loads(json.dumps(metadata)))
        change.artifact.artifact.extensions.extend(extensions)
        return change

    row = await plane.create(changes=changed(status(WORKING), described("a", ["x"], append=False, k={"n": 1}, j=1)))
    await plane.append(row, described("b", ["y", "x"], append=True, k={"m": 2}), chunk("c", append=True))
    _, task = await plane.log.get(ADA, row.id)
    (artifact,) = task.artifacts
    assert list(artifact.extensions) == ["x", "y"]
    assert (artifact.metadata["j"], dict(artifact.metadata["k"])) == (1, {"m": 2})  # type: ignore[arg-type]
    await plane.append(row, described("d", ["z"], append=False))
    _, task = await plane.log.get(ADA, row.id)
    assert task.artifacts == [a2a.Artifact(artifact_id="a", parts=[a2a.Part(text="d")], extensions=["z"])]
    await plane.check(row)


@pytest.mark.parametrize("trimmed", [False, True])
async def test_an_exported_task_is_read_again_without_its_checkpoints(plane: Plane, trimmed: bool) -> None:
    """S, C16: with its figures, which its pauses and its end tell; also after its log was trimmed."""
    row = await plane.create(on_orphan=RESUME)
    await plane.append(row, status_text("Reading", "s1"), checkpoint(b"1"))
    asked = used(status(INPUT_REQUIRED, message("?", "m2")), input=100)
    await plane.append(row, asked, consumed_generation=1)
    await plane.say(row, "i2")
    await plane.claim(row)
    await plane.append(row, status(WORKING), used(status(FAILED, message("no", "m3")), input=11))
    now = await plane.log.row_by_uid(row.uid)
    if trimmed:
        await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=now.generation))
        await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=1 << 60, at_most=500))
    reader: TaskReader | None = None
    async for response in exported(plane.log, ADA, row.id, 0):
        if response.HasField("task"):
            reader = TaskReader(1, response.task, ADA, row.context_id, "salt", 1)
        for event in response.events.events:
            assert reader is not None and not event.event.checkpoint
            reader.event(2, event)
    assert reader is not None and reader.complete
    found = reader.finished()
    assert (found.row.on_orphan, found.row.checkpoint_generation, found.row.limit_at) == (RESUME, None, None)
    assert (await plane.log.get(ADA, row.id))[1] == a2a.Task.FromString(found.snapshot)
    assert a2a.Task.FromString(found.snapshot).metadata["taskplane.dev/usage"]["input"] == 111  # type: ignore[index]
