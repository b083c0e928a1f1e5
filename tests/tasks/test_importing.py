"""Tasks too large to be imported, since no reply could hold them (`taskplane.tasks.importing`)."""

import pytest

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.tasks import importing
from taskplane.tasks.domain.kinds import CREATED
from taskplane.tasks.domain.task import SUBMITTED, Scope
from taskplane.tasks.importing import TaskReader

LARGE = 70_000_000


def begun(text: str = "") -> TaskReader:
    """A task of which no event was read yet, on line 3."""
    given = pb.ExportedTask(
        uid="u", id="t", origin=pb.ORIGIN_MANAGED, generation=9, on_orphan=pb.ON_ORPHAN_FAIL, max_attempts=1
    )
    given.task.CopyFrom(task(text))
    for stamp in (given.created_at, given.status_at, given.updated_at):
        stamp.seconds = 1
    return TaskReader(3, given, Scope("", "ada", ""), "c", "salt", 1)


def task(text: str) -> a2a.Task:
    made = a2a.Task(id="t", context_id="c", status=a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED))
    made.history.add(message_id="m", role=a2a.ROLE_USER).parts.add().text = text
    return made


def created(text: str) -> pb.ExportedEvent:
    given = pb.ExportedEvent(state=SUBMITTED, changed_to=SUBMITTED, request_hash=b"h" * 32)  # type: ignore[arg-type]
    given.event.CopyFrom(pb.Event(generation=1, kind=CREATED, actor="x", invocation_id="i"))  # type: ignore[arg-type]
    given.event.created_at.seconds = 1
    given.event.event.task.CopyFrom(task(text))
    return given


def test_a_task_with_one_text_that_fits_no_reply_is_refused_by_its_line() -> None:
    """S: nobody could read what was taken."""
    with pytest.raises(Invalid) as refused:
        begun("x" * LARGE)
    assert (refused.value.reason, refused.value.metadata) == ("TASK_TOO_LARGE", {"line": "3"})
    with pytest.raises(Invalid) as refused:
        begun().event(4, created("x" * LARGE))
    assert (refused.value.reason, refused.value.metadata) == ("TASK_TOO_LARGE", {"line": "4"})


@pytest.mark.parametrize(("limit", "value"), [("_MOST_EVENTS", 1), ("_MOST_LOGGED", 200)])
def test_a_log_over_its_limits_is_refused_by_the_line_that_is_too_much(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """S: of events and of bytes."""
    monkeypatch.setattr(importing, limit, value)
    reader = begun()
    reader.event(4, created("x" * 90))
    more = pb.ExportedEvent()
    more.event.CopyFrom(pb.Event(generation=2, kind=pb.EVENT_KIND_ARTIFACT, actor="x"))
    more.event.created_at.seconds = 1
    update = more.event.event.artifact_update
    update.task_id, update.context_id = "t", "c"
    update.artifact.parts.add().text = "x" * 90
    update.append = True
    with pytest.raises(Invalid) as refused:
        reader.event(5, more)
    assert (refused.value.reason, refused.value.metadata) == ("TASK_TOO_LARGE", {"line": "5"})
