"""The filter of streams for clients that did not request partial messages."""

from taskplane.api import growing_text
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.a2a.plain_text import PlainText


def status(cursor: str, state: "a2a.TaskState.ValueType", message_id: str, *, ends: bool = False) -> Item:
    update = a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=state, message=a2a.Message(message_id=message_id)))
    if ends:
        update.metadata.fields[growing_text.ENDS].bool_value = True
    return cursor, update


LAST = status("i-2", a2a.TASK_STATE_WORKING, "m", ends=True)
END = status("i-3", a2a.TASK_STATE_COMPLETED, "m")


def test_the_last_message_of_a_run_is_sent_with_its_end_also_across_batches() -> None:
    """T1."""
    assert PlainText().take([LAST, END]) == [END]
    plain = PlainText()
    assert plain.take([LAST]) == []
    assert plain.take([END]) == [END] and plain.rest() == []


def test_a_message_sent_before_another_event_is_not_repeated_at_the_end() -> None:
    """T1: a forced artifact comes between the two."""
    chunk = ("i-3", a2a.TaskArtifactUpdateEvent())
    plain = PlainText()
    assert plain.take([LAST, chunk]) == [LAST, chunk]
    ((_, end),) = plain.take([END])
    assert isinstance(end, a2a.TaskStatusUpdateEvent)
    assert end.status.state == a2a.TASK_STATE_COMPLETED and not end.status.HasField("message")


def test_the_last_message_is_sent_if_the_run_ends_in_another_way() -> None:
    """T1: no committed message is held back at the end of the stream."""
    failed = status("i-3", a2a.TASK_STATE_FAILED, "reason")
    assert PlainText().take([LAST, failed]) == [LAST, failed]
    plain = PlainText()
    plain.take([LAST])
    assert plain.rest() == [LAST]
