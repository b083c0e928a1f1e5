"""The outbox of a run: its items for the appender, their numbers, and its reaction to the answers."""

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.executor.plane import text

from taskplane.agents.agent import ArtifactChunk
from taskplane.agents.changes import MessageFactory, Status
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.runs.outbox import (
    LEASE_GONE,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    CommittedItem,
    ItemRefused,
    Outbox,
    Stopped,
)

FACTORY = MessageFactory(task_id="t", context_id="c", invocation_id="i", fence=3)
WORKING = a2a.TASK_STATE_WORKING


class Run:
    """An outbox, its calls to its run and the appender, and the log of its items."""

    def __init__(self, lease: float = 3600.0) -> None:
        self.rings = 0
        self.committed: list[CommittedItem] = []
        self.lost = 0
        self.head = 2
        self.box = Outbox(
            "uid",
            3,
            until=time.monotonic() + lease,
            ring=self._ring,
            committed=self.committed.append,
            lost=self._lose,
        )

    def _ring(self, outbox: Outbox) -> None:
        self.rings += 1

    def _lose(self) -> None:
        self.lost += 1

    def say(self, words: str) -> None:
        message = FACTORY.message(words)
        self.box.put(Status(WORKING, message), message)

    def take(self) -> pb.AppendItem:
        request = pb.AppendEventsRequest()
        self.box.take(request)
        (item,) = request.items
        return item

    def accept(self, item: pb.AppendItem, *, input_generation: int = 0) -> bool:
        """The answer to an item that the store takes."""
        first, self.head = self.head + 1, self.head + len(item.changes)
        return self.box.answer(
            pb.AppendResult(first_generation=first, last_generation=self.head, input_generation=input_generation)
        )

    def refuse(self, reason: str) -> bool:
        return self.box.answer(pb.AppendResult(refusal=pb.Refusal(reason=reason, message="no")))


async def waits(call: "asyncio.Task[object]") -> bool:
    """Whether a call still waits after every other task had its turn."""
    for _ in range(3):
        await asyncio.sleep(0)
    return not call.done()


def said(item: pb.AppendItem) -> list[str]:
    return [text(change.status.status.message) for change in item.changes]


async def test_items_are_numbered_from_1_under_their_fence() -> None:
    """C6: an item has all waiting changes; later ones are in the next item."""
    run = Run()
    run.say("one")
    run.say("two")
    assert run.rings == 1
    first = run.take()
    assert (first.task_uid, first.fence, first.number, said(first)) == ("uid", 3, 1, ["one", "two"])
    run.say("three")
    assert run.rings == 1 and run.accept(first)
    second = run.take()
    assert (second.number, said(second)) == (2, ["three"])
    assert not run.accept(second) and run.box.weight() == (0, 0)
    assert [(item.first, item.last, item.count) for item in run.committed] == [(3, 4, 2), (5, 5, 1)]
    assert [[generation for generation, _ in item.spoken] for item in run.committed] == [[3, 4], [5]]


async def test_an_item_without_an_answer_is_sent_again_unchanged() -> None:
    """C6: it keeps its number and content, even if changes were added since."""
    run = Run()
    run.say("one")
    item = run.take()
    sent = item.SerializeToString(deterministic=True)
    run.say("two")
    run.box.mark_copied(2)
    assert run.box.weight()[0] == 1
    assert run.take().SerializeToString(deterministic=True) == sent
    assert run.accept(item)
    following = run.take()
    assert (following.number, said(following), following.copied_generation) == (2, ["two"], 2)


async def test_waiting_pieces_of_a_text_or_of_an_artifact_become_one_change() -> None:
    run = Run()
    run.box.text(FACTORY, "m", "so ")
    run.box.text(FACTORY, "m", "far")
    for index, piece in enumerate(("a", "b", "c")):
        run.box.chunk(ArtifactChunk("x", text=piece, append=index > 0))
    run.box.chunk(ArtifactChunk("y", text="alone", mergeable=False))
    run.box.chunk(ArtifactChunk("y", text="too", append=True, mergeable=False))
    run.box.text(FACTORY, "m", " and on")
    item = run.take()
    text_, x, y1, y2 = item.changes
    assert text(text_.status.status.message) == "so far and on"
    assert [[part.text for part in change.artifact.artifact.parts] for change in (x, y1, y2)] == [
        ["abc"],
        ["alone"],
        ["too"],
    ]
    # A text that was taken is not changed any more.
    run.box.text(FACTORY, "m", "!")
    assert text(run.take().changes[0].status.status.message) == "so far and on"
    run.accept(item)
    assert said(run.take()) == ["!"]


async def test_no_piece_joins_a_text_before_a_whole_message() -> None:
    run = Run()
    run.box.text(FACTORY, "m", "one")
    run.say("whole")
    run.box.text(FACTORY, "n", "two")
    assert said(run.take()) == ["one", "whole", "two"]


@pytest.mark.parametrize("bound", ["changes", "bytes"])
async def test_a_run_waits_while_its_outbox_is_full(bound: str) -> None:
    """C13: until the appender has taken the changes."""
    run = Run()
    piece = "x" if bound == "changes" else "x" * 8192
    put = 0
    while not run.box.blocked:
        run.say(piece)
        put += 1
    if bound == "changes":
        assert put == MAX_WAITING
    else:
        # Each weighs a little more than its text.
        assert (put - 1) * 8192 < MAX_WAITING_BYTES < put * 9000
    waiting = asyncio.create_task(run.box.space())
    assert await waits(waiting)
    run.take()
    await waiting
    assert not run.box.blocked


async def test_flush_waits_until_all_changes_are_stored() -> None:
    run = Run()
    run.say("one")
    flushing = asyncio.create_task(run.box.flush())
    item = run.take()
    run.say("two")
    assert await waits(flushing)
    run.accept(item)
    assert await waits(flushing)
    run.accept(run.take())
    await flushing


async def test_the_final_change_is_last_and_has_the_consumed_generation() -> None:
    run = Run()
    run.say("one")
    finishing = asyncio.create_task(run.box.finish(Status(a2a.TASK_STATE_COMPLETED), consumed=7))
    assert await waits(finishing)
    item = run.take()
    assert [change.status.status.state for change in item.changes] == [WORKING, a2a.TASK_STATE_COMPLETED]
    assert item.consumed_generation == 7
    assert not run.accept(item)
    assert await finishing and run.box.at_rest


async def test_a_final_change_refused_for_a_message_is_withdrawn_and_the_rest_sent_again() -> None:
    """C8: under a new number, with later changes behind it; the run must read the message."""
    run = Run()
    run.say("one")
    finishing = asyncio.create_task(run.box.finish(Status(a2a.TASK_STATE_COMPLETED), consumed=1))
    assert await waits(finishing)
    first = run.take()
    again = run.box.answer(
        pb.AppendResult(input_generation=9, refusal=pb.Refusal(reason="PENDING_INPUT", message="read it"))
    )
    assert again and not await finishing and not run.box.at_rest
    assert run.box.input_generation == 9 and run.committed == []
    run.say("two")
    second = run.take()
    assert (second.number, said(second), second.consumed_generation) == (2, ["one", "two"], 0)
    assert second.changes[0] == first.changes[0]
    run.accept(second)
    assert [words for _, words in run.committed[0].spoken] == [
        change.status.status.message for change in second.changes
    ]
    finishing = asyncio.create_task(run.box.finish(Status(a2a.TASK_STATE_COMPLETED), consumed=9))
    assert await waits(finishing)
    run.accept(run.take())
    assert await finishing


@pytest.mark.parametrize("reason", sorted(LEASE_GONE))
async def test_a_run_without_its_lease_is_stopped(reason: str) -> None:
    """C8: waiting changes are discarded, waiting callers get Stopped, and no further item is sent."""
    run = Run()
    run.say("one")
    flushing = asyncio.create_task(run.box.flush())
    assert await waits(flushing)
    run.take()
    run.say("two")
    assert not run.refuse(reason)
    with pytest.raises(Stopped):
        await flushing
    assert run.lost == 1 and run.box.weight() == (0, 0)
    for call in (run.box.flush, run.box.space):
        with pytest.raises(Stopped):
            await call()
    with pytest.raises(Stopped):
        await run.box.finish(Status(a2a.TASK_STATE_FAILED), consumed=0)
    # An answer that comes late is of nothing.
    assert not run.accept(pb.AppendItem())
    assert run.committed == []


async def test_a_final_refusal_reaches_the_run_which_may_send_one_more_change() -> None:
    run = Run()
    run.say("one")
    run.take()
    run.say("two")
    run.refuse("TASK_TOO_LARGE")
    assert run.box.blocked
    with pytest.raises(ItemRefused) as refused:
        await run.box.space()
    assert (refused.value.reason, refused.value.message, run.lost) == ("TASK_TOO_LARGE", "no", 0)
    run.box.clear()
    finishing = asyncio.create_task(run.box.finish(Status(a2a.TASK_STATE_FAILED), consumed=0))
    assert await waits(finishing)
    item = run.take()
    assert (item.number, len(item.changes)) == (2, 1)
    run.accept(item)
    assert await finishing


async def test_nothing_is_sent_between_a_refusal_and_the_end_of_the_run() -> None:
    """A waiting change would be refused in place of the end, and the end could not be sent."""
    run = Run()
    run.say("one")
    run.take()
    run.say("two")
    assert not run.refuse("TASK_TOO_LARGE")
    assert run.box.weight() == (0, 0)
    run.box.clear()
    finishing = asyncio.create_task(run.box.finish(Status(a2a.TASK_STATE_FAILED), consumed=0))
    assert await waits(finishing) and run.box.weight()[0] == 1
    run.accept(run.take())
    assert await finishing


async def test_no_item_is_sent_after_the_end_of_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: the run pauses, and continues after a renewal."""
    run = Run(lease=-1.0)
    run.say("one")
    assert run.box.blocked and run.box.weight() == (0, 0)
    waiting = asyncio.create_task(run.box.space())
    assert await waits(waiting)
    rings = run.rings
    run.box.renewed(time.monotonic() + 3600.0)
    await waiting
    assert run.rings == rings + 1 and run.box.weight()[0] == 1
    run.box.renewed(time.monotonic() + 7200.0)
    assert run.rings == rings + 1


async def test_the_copied_generation_is_reported_once_and_never_falls() -> None:
    """C6: it counts as reported only after the item that carries it was accepted."""
    run = Run()
    run.box.mark_copied(5)
    run.box.mark_copied(4)
    reported: list[int] = []
    for words, refused in (("one", True), ("two", False), ("three", False)):
        run.say(words)
        item = run.take()
        reported.append(item.copied_generation)
        if refused:
            run.refuse("ILLEGAL_TRANSITION")
            run.box.clear()
        else:
            run.accept(item)
    assert reported == [5, 5, 0]


def _refuse(box: Outbox) -> None:
    box.refuse(ItemRefused("X", "no"))


@pytest.mark.parametrize("close", [Outbox.close, _refuse])
async def test_a_waiting_flush_raises_when_the_run_ends(close: Callable[[Outbox], None]) -> None:
    run = Run()
    run.say("one")
    flushing = asyncio.create_task(run.box.flush())
    assert await waits(flushing)
    close(run.box)
    with pytest.raises((Stopped, ItemRefused)):
        await flushing


class _Broken(Status):
    def fill(self, change: pb.Change) -> None:
        raise UnicodeEncodeError("utf-8", "?", 0, 1, "no")


async def test_a_change_that_cannot_be_sent_is_refused_and_the_batch_is_sent() -> None:
    """P9: the appender sends for all runs of its process."""
    broken, sound = Run(), Run()
    request = pb.AppendEventsRequest()
    broken.box.put(_Broken(WORKING, FACTORY.message("broken")))
    sound.say("sound")
    assert not broken.box.take(request) and sound.box.take(request)
    assert [said(item) for item in request.items] == [["sound"]]
    with pytest.raises(ItemRefused, match="cannot be sent: UnicodeEncodeError"):
        await broken.box.flush()
    broken.box.clear()
    broken.say("the run failed")
    assert said(broken.take()) == ["the run failed"]


async def test_an_item_with_figures_only_is_sent_until_it_is_answered() -> None:
    """C8: like any other item; later changes wait for its answer."""
    run = Run()
    run.box.count({"tokens": 3})
    assert run.box.weight()[0] == 1
    item = run.take()
    run.say("later")
    assert run.box.weight()[0] == 1
    assert run.take() == item and dict(item.usage) == {"tokens": 3}
    assert run.accept(item)
    assert said(run.take()) == ["later"]
