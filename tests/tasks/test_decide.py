"""The rules of one operation on one task, without a store."""

from dataclasses import replace

import pytest
from tests.tasks.drafting import SCOPE, Log, chunk, create, final_message, message, started, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.needs import needs_artifacts
from taskplane.tasks.domain.task import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    NEXT,
    PAUSED,
    REJECTED,
    STATES,
    SUBMITTED,
    TERMINAL,
    WORKING,
    Row,
    Scope,
    changed,
)
from taskplane.tasks.wire import read_changes


def reason(answer: object) -> str:
    if isinstance(answer, commands.Appended):
        assert answer.refusal is not None
        return answer.refusal.reason
    assert isinstance(answer, PlaneError)
    return answer.reason


def row_of(log: Log) -> Row:
    assert log.row is not None
    return log.row


def in_state(state: int) -> Log:
    """A task brought to `state` along legal ways only."""
    log = started()
    if state == SUBMITTED:
        fresh = Log()
        fresh.do(create(claim_for=""))
        fresh.do(commands.Claim(task_uid="u1", process_id="p1", lease_until=5_000))
        return fresh
    if state == CANCELED:
        log.do(commands.Cancel(scope=SCOPE, task_id="t1"))
    elif state != WORKING:
        assert log.append(status(state, message("?", "m-end")), consumed=1).refusal is None
    assert log.state == state
    return log


@pytest.mark.parametrize("old", sorted(STATES))
@pytest.mark.parametrize("new", sorted(STATES))
def test_an_executor_moves_a_task_exactly_along_the_table_of_states(old: int, new: int) -> None:
    """C7: the table NEXT, exhaustively; at rest nobody holds the fence any more, so the first refusal is that."""
    log = in_state(old)
    before = row_of(log)
    answer = log.append(status(new, message("x", "m-new")), consumed=1)
    if old in TERMINAL:
        assert reason(answer) == "TERMINAL"
    elif old in PAUSED:
        assert reason(answer) == "FENCED"
    elif new in NEXT[old]:
        assert answer.refusal is None
        assert log.state == new
        return
    else:
        assert reason(answer) == "ILLEGAL_TRANSITION"
    assert row_of(log) == before


def test_a_task_is_created_once_per_invocation() -> None:
    """C10: same hash, same task and fence; another hash, KEY_REUSED."""
    log = Log()
    first = log.do(create())
    again = log.do(create())
    assert isinstance(first, commands.Created)
    assert isinstance(again, commands.Created)
    assert (first.created, again.created) == (True, False)
    assert again.fence == first.fence == 1
    changed = replace(create(), request_hash=b"other")
    assert reason(log.do(changed)) == "KEY_REUSED"
    elsewhere = replace(create(), claim_for="p2")
    unleased = log.do(elsewhere)
    assert isinstance(unleased, commands.Created)
    assert unleased.fence == 0
    assert [event.generation for event in log.events] == [1, 2]


def test_a_repeated_item_is_answered_as_before_even_after_the_end() -> None:
    """C6: an item is known by fence and number."""
    log = started()
    first = log.append(status(WORKING, message("a", "m1")))
    log.number -= 1
    assert log.append(status(WORKING, message("a", "m1"))) == first
    ended = log.append(status(COMPLETED), consumed=1)
    log.number -= 1
    assert log.append(status(COMPLETED), consumed=1) == ended
    assert len([e for e in log.events if e.generation > 2]) == 2


def test_the_times_of_a_task_go_with_its_generations_though_a_clock_falls_back() -> None:
    """P10: an artifact is never newer than the end of its task."""
    log = started()
    assert log.append(chunk("one")).refusal is None
    log.now -= 50
    assert log.append(status(COMPLETED, message("done", "m-end")), consumed=1).refusal is None
    times = [event.created_at for event in log.events]
    assert times == sorted(times)
    assert log.task().status.timestamp.ToMicroseconds() == row_of(log).updated_at == row_of(log).status_at == times[-1]


def test_an_answered_task_with_times_ahead_of_the_clock_is_ready_at_once() -> None:
    """I1: also a task that was imported from a machine with a clock that is ahead."""
    log = started()
    assert log.append(status(INPUT_REQUIRED, message("?", "m-ask")), consumed=1).refusal is None
    log.now -= 50
    log.say("yes", "i2")
    assert row_of(log).ready_at == log.now < row_of(log).updated_at


def test_an_executor_without_the_lease_writes_nothing() -> None:
    """C8: claim, pause, release, requeue and cancel raise the fence."""
    paused = started()
    paused.append(status(INPUT_REQUIRED, message("?", "q")), consumed=1)
    assert row_of(paused).fence == 2
    assert row_of(paused).lease_owner is None
    assert reason(paused.append(chunk("x"), fence=1)) == "FENCED"

    requeued = started(on_orphan=2)
    requeued.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1))
    assert row_of(requeued).fence == 2
    requeued.do(commands.Claim(task_uid="u1", process_id="p2", lease_until=9_000))
    assert row_of(requeued).fence == 3
    assert reason(requeued.append(chunk("x"), fence=1)) == "FENCED"

    canceled = started()
    canceled.do(commands.Cancel(scope=SCOPE, task_id="t1"))
    assert row_of(canceled).fence == 2
    assert reason(canceled.append(chunk("x"), fence=1)) == "TERMINAL"


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED])
def test_a_task_neither_completes_nor_pauses_past_an_unread_message(state: int) -> None:
    """I1, C8: PENDING_INPUT, until the run says that it has read it."""
    log = started()
    added = log.say("wait", "i2")
    assert isinstance(added, commands.Added)
    refused = log.append(status(state, message("done", "m")), consumed=1)
    assert reason(refused) == "PENDING_INPUT"
    assert refused.input_generation == added.generation
    assert log.append(status(state, message("done", "m")), consumed=added.generation).refusal is None


def test_a_failure_is_not_held_up_by_an_unread_message_and_names_it() -> None:
    """C8: failed and rejected tasks keep the message and say from where on nothing was read."""
    log = started()
    log.say("wait", "i2")
    assert log.append(status(FAILED, message("no", "m")), consumed=1).refusal is None
    last = a2a.StreamResponse.FromString(log.events[-1].payload).status_update
    assert last.metadata.fields["unread_from"].number_value == 2
    assert [each.message_id for each in log.task().history] == ["m-user", "m-more"]


def test_a_message_reopens_a_paused_task_and_queues_it() -> None:
    """I1: input-required, then submitted, under the same id."""
    log = in_state(INPUT_REQUIRED)
    assert isinstance(log.say("blue", "i2"), commands.Added)
    row = row_of(log)
    assert (row.state, row.attempt, row.lease_owner) == (SUBMITTED, 0, None)
    assert row.ready_at == log.now
    payload = a2a.StreamResponse.FromString(log.events[-1].payload)
    assert payload.status_update.status.state == SUBMITTED
    repeated = log.say("blue", "i2")
    assert isinstance(repeated, commands.Added)
    assert not repeated.added


def test_a_message_to_an_ended_task_is_refused_and_changes_nothing() -> None:
    """I1, C7."""
    log = in_state(COMPLETED)
    before = row_of(log)
    assert reason(log.say("more", "i2")) == "TERMINAL"
    assert row_of(log) == before


def test_of_complete_and_cancel_the_first_wins() -> None:
    """C11: the second is refused."""
    log = in_state(COMPLETED)
    assert reason(log.do(commands.Cancel(scope=SCOPE, task_id="t1"))) == "TERMINAL"
    other = in_state(CANCELED)
    assert reason(other.do(commands.Cancel(scope=SCOPE, task_id="t1"))) == "TERMINAL"
    assert sum(e.generation == row_of(other).terminal_generation for e in other.events) == 1


@pytest.mark.parametrize("how", ["cancel", "fail", "reject", "orphan"])
def test_an_interrupted_text_stays_as_a_final_message(how: str) -> None:
    """C11, T5: the text that the user has seen is kept, marked, and belongs to the session."""
    log = started()
    log.append(status(WORKING, message("Hel", "m1", partial=True)))
    log.append(status(WORKING, message("lo", "m1", partial=True)))
    if how == "cancel":
        log.do(commands.Cancel(scope=SCOPE, task_id="t1"))
    elif how == "orphan":
        log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1))
    else:
        log.append(status(FAILED if how == "fail" else REJECTED, message("no", "m2")), consumed=1)
    text = next(each for each in log.task().history if each.message_id == "m1")
    assert text.parts[0].text == "Hello"
    assert text.metadata.fields["interrupted"].bool_value
    assert "kagent_adk_partial" not in text.metadata.fields
    assert log.events[-2].speaks
    assert row_of(log).partial_id is None


def test_a_text_that_begins_and_is_interrupted_in_one_item_is_kept() -> None:
    """C11: the stored part of the text and the part in this item."""
    log = started()
    log.append(status(WORKING, message("a", "m1", partial=True)))
    answer = log.append(status(WORKING, message("b", "m1", partial=True)), status(FAILED), consumed=1)
    assert answer.refusal is None
    assert log.task().history[-1].parts[0].text == "ab"


def test_two_texts_are_not_open_at_once() -> None:
    log = started()
    log.append(status(WORKING, message("a", "m1", partial=True)))
    assert reason(log.append(status(WORKING, message("b", "m2", partial=True)))) == "OPEN_TEXT"


def test_a_changed_row_differs_in_the_named_fields_only() -> None:
    row = row_of(started())
    assert changed(row, generation=7, message_id=None) == row._replace(generation=7, message_id=None)
    assert changed(row) == row
    with pytest.raises(KeyError):
        changed(row, generations=7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_nothing_is_appended_to_an_artifact_that_is_not_there() -> None:
    """P5, a2a C18: the item is refused as a whole; one that begins the artifact first is taken, and so is what follows
    it."""
    log = started()
    before = row_of(log), len(log.events)
    said = status(WORKING, message("a", "m1"))
    for changes in ([chunk("x", append=True)], [said, chunk("x"), chunk("y", "b", append=True)]):
        refused = log.append(*changes)
        assert (reason(refused), refused.last_generation) == ("ILLEGAL_APPEND", 0)
        assert (row_of(log), len(log.events)) == before
    assert log.append(chunk("x"), chunk("y", append=True), chunk("z", "b")).refusal is None
    assert log.append(chunk("z", append=True), chunk("z", "b", append=True)).refusal is None
    assert {each.artifact_id: each.parts[0].text for each in log.task().artifacts} == {"a": "xyz", "b": "zz"}


def test_an_artifact_outlives_a_pause_but_not_its_lost_attempt() -> None:
    """P5, C9: an attempt that is run again begins its artifacts anew."""
    log = started(on_orphan=2)
    log.append(chunk("x"), chunk("x", "b"), status(INPUT_REQUIRED, message("?", "q")), consumed=1)
    log.say("go on", "i2")
    log.do(commands.Claim(task_uid="u1", process_id="p1", lease_until=log.now))
    assert log.append(status(WORKING), chunk("y", append=True)).refusal is None
    log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=row_of(log).fence))
    log.do(commands.Claim(task_uid="u1", process_id="p1", lease_until=log.now))
    for artifact_id in ("a", "b"):
        assert reason(log.append(chunk("z", artifact_id, append=True))) == "ILLEGAL_APPEND"
    assert log.append(chunk("z"), chunk("z", append=True)).refusal is None
    assert [part.text for part in log.task().artifacts[0].parts] == ["zz"]


def test_only_an_artifact_other_than_the_last_one_is_looked_up() -> None:
    """W1: a stream of one artifact is decided by the row alone."""
    log = started()
    log.append(chunk("x"), chunk("x", "b"))

    def asked(*changes: pb.Change) -> list[str]:
        read = read_changes(changes, "changes")
        return needs_artifacts(row_of(log), commands.Append(actor="", task_uid="u1", fence=1, number=9, changes=read))

    assert asked(chunk("y", "b", append=True), chunk("y", "b", append=True)) == []
    assert asked(chunk("y", "c"), chunk("y", "c", append=True), chunk("y"), chunk("y", append=True)) == []
    assert asked(chunk("y", append=True), chunk("y", "c", append=True), chunk("y", append=True)) == ["a", "c"]


def test_a_lost_run_fails_is_run_again_or_is_given_up() -> None:
    """C9: by the policy in the row."""
    failing = started()
    failing.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1))
    assert failing.state == FAILED
    said = failing.task().status.message
    assert said.metadata.fields["reason"].string_value == "EXECUTOR_LOST"

    again = started(on_orphan=2)
    again.append(chunk("x"), status(WORKING, message("said", "m1")))
    fence = row_of(again).fence
    again.do(commands.Orphan(task_uid="u1", process_id="p1", fence=fence))
    assert again.state == SUBMITTED
    assert row_of(again).ready_at == again.now
    task = again.task()
    assert not task.artifacts
    assert task.history[-1].metadata.fields["taskplane.dev/lost_attempt"].number_value == 1
    for attempt in (2, 3):
        again.now = (row_of(again).ready_at or 0) + 1
        assert again.do(commands.Claim(task_uid="u1", process_id="p1", lease_until=again.now + 1)) is not None
        assert row_of(again).attempt == attempt
        again.do(commands.Orphan(task_uid="u1", process_id="p1", fence=row_of(again).fence))
    assert again.state == FAILED
    assert again.task().status.message.metadata.fields["reason"].string_value == "POISON"


@pytest.mark.parametrize("on_orphan", [1, 2, 3])
@pytest.mark.parametrize("state", [COMPLETED, *sorted(PAUSED)])
def test_a_lost_run_with_a_final_message_ends_or_pauses_with_it(state: int, on_orphan: int) -> None:
    """C6, C9: one question has one end, whatever the policy; nothing is run again, and nothing is said twice."""
    log = started(on_orphan=on_orphan)
    assert log.append(status(WORKING, message("so", "m1", partial=True))).refusal is None
    assert log.append(final_message(state, message("so be it", "m1"), 1)).refusal is None
    said = len(log.task().history)
    log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1))
    row, task = row_of(log), log.task()
    assert (log.state, row.fence, row.lease_owner, row.ready_at, row.consumed_generation) == (state, 2, None, None, 1)
    assert task.status.message.parts[0].text == "so be it"
    assert [each.message_id for each in task.history if each.role == a2a.ROLE_AGENT] in ([], ["m1"])
    assert len(task.history) <= said
    assert log.events[-1].speaks is False
    if state in PAUSED:
        log.say("more", "i2")
        assert (log.state, row_of(log).attempt) == (SUBMITTED, 0)


def test_a_final_message_ends_no_task_that_the_user_has_added_to() -> None:
    """C8: neither before nor after them; nor do those of an attempt that was lost before."""
    for before in (True, False):
        log = started()
        if before:
            log.say("and", "i2")
        log.append(final_message(COMPLETED, message("done", "m1"), 1))
        if not before:
            log.say("and", "i2")
        log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1))
        assert log.state == FAILED
    again = started(on_orphan=2)
    again.say("and", "i2")
    again.append(final_message(COMPLETED, message("done", "m1"), 1))
    again.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1))
    again.do(commands.Claim(task_uid="u1", process_id="p1", lease_until=again.now))
    again.append(status(WORKING))
    again.do(commands.Orphan(task_uid="u1", process_id="p1", fence=row_of(again).fence))
    assert again.state == SUBMITTED


def test_a_run_that_never_started_is_queued_again_silently() -> None:
    """C9, row 1; a release does not count as an attempt."""
    log = in_state(SUBMITTED)
    events = len(log.events)
    log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1, released=True))
    assert (row_of(log).attempt, row_of(log).fence, len(log.events)) == (0, 2, events)
    assert row_of(log).ready_at is not None


def test_an_orphan_is_only_the_lease_that_was_meant() -> None:
    """C8: a lease that was renewed, is being renewed, was released or taken over meanwhile is left alone."""
    log = started()
    assert log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=7)) is None
    assert log.do(commands.Orphan(task_uid="u1", process_id="p2", fence=1)) is None
    assert log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1, expired_before=999)) is None
    log.lease_until = None
    assert log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1, expired_before=9_999)) is None
    log.lease_until = 1_000
    assert log.do(commands.Orphan(task_uid="u1", process_id="p1", fence=1, expired_before=1_000)) is not None


def test_a_task_of_somebody_else_is_not_found() -> None:
    """The same words as for one that does not exist."""
    log = started()
    stranger = Scope(tenant="", owner="eve", actor="eve")
    foreign = log.do(commands.Cancel(scope=stranger, task_id="t1"))
    missing = Log().do(commands.Cancel(scope=stranger, task_id="t1"))
    assert isinstance(foreign, PlaneError)
    assert isinstance(missing, PlaneError)
    assert (foreign.reason, foreign.message) == (missing.reason, missing.message)


def test_a_document_is_replaced_at_any_state_and_never_run() -> None:
    """T4, T5: each replacement is one generation; partial messages are left out; a managed task is refused."""
    task = a2a.Task(id="t1", context_id="c1")
    task.status.state = a2a.TASK_STATE_COMPLETED
    task.history.add().CopyFrom(message("part", "m1", partial=True))
    task.history.add().CopyFrom(message("whole", "m1"))
    put = commands.Put(scope=SCOPE, uid="u1", salt="s", task=task)
    log = Log()
    first = log.do(put)
    assert isinstance(first, commands.Done)
    assert first.created
    task.status.state = a2a.TASK_STATE_WORKING
    log.do(put)
    assert (row_of(log).generation, row_of(log).state, row_of(log).origin) == (2, WORKING, "document")
    assert all(not event.payload for event in log.events)
    assert reason(log.append(chunk("x"))) == "NOT_MANAGED"
    assert reason(log.do(commands.Cancel(scope=SCOPE, task_id="t1"))) == "NOT_MANAGED"
    stale = commands.Put(scope=SCOPE, uid="u1", salt="s", task=task, expected_generation=1)
    assert reason(log.do(stale)) == "GENERATION_MISMATCH"
    managed = started()
    assert reason(managed.do(put)) == "MANAGED"


def test_a_repeated_final_message_does_not_make_a_task_uncopied() -> None:
    """C6: a terminal status may repeat the message before it."""
    log = started()
    log.append(status(WORKING, message("done", "m1")))
    spoke = row_of(log).message_generation
    log.append(status(COMPLETED, message("done", "m1")), consumed=1, copied=spoke)
    row = row_of(log)
    assert row.message_generation == row.copied_generation == spoke
    assert [each.message_id for each in log.task().history] == ["m-user"]


def test_a_claim_beyond_the_head_is_refused() -> None:
    log = started()
    assert reason(log.append(chunk("x"), copied=9)) == "BEYOND_HEAD"
    assert reason(log.do(commands.MarkCopied(task_uid="u1", generation=9))) == "BEYOND_HEAD"


def test_an_incomplete_change_is_refused() -> None:
    log = started()
    assert reason(log.append(pb.Change())) == "INVALID_ARGUMENT"
    assert reason(log.append(status(0))) == "INVALID_ARGUMENT"
