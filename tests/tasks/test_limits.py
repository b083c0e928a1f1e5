"""The limits of a task: an event beyond a limit is refused, and the end of the task always fits."""

import pytest
from tests.tasks.drafting import Log, chunk, message, started, status

from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain.limits import END_BYTES, END_EVENTS, MAX_BYTES, MAX_EVENTS
from taskplane.tasks.domain.task import CANCELED, FAILED, WORKING


def with_room(events: int, size: int) -> Log:
    """A task with room for so many further events and bytes, its end not counted."""
    log = started()
    assert log.row is not None
    at = log.row.generation
    log.row = log.row._replace(generation=MAX_EVENTS - END_EVENTS - events, event_bytes=MAX_BYTES - END_BYTES - size)
    assert at < log.row.generation
    return log


def refusal(answer: object) -> PlaneError | None:
    found = answer if isinstance(answer, PlaneError) else getattr(answer, "refusal", None)
    assert found is None or isinstance(found, PlaneError)
    return found


@pytest.mark.parametrize(
    ("events", "size", "reason", "limit"),
    [(1, 10**6, "TOO_MANY_EVENTS", "50,000 events"), (100, 1000, "TASK_TOO_LARGE", "64 MiB")],
)
def test_a_change_beyond_a_limit_of_the_task_is_refused(events: int, size: int, reason: str, limit: str) -> None:
    """L1: the error has the limit in words, for executors and users. A change within the limit is accepted."""
    log = with_room(events, size)
    before = log.row
    for answer in (
        log.append(chunk("x" * 600), chunk("y" * 600, "b")),
        log.say("x" * 1200, "i2") if reason == "TASK_TOO_LARGE" else log.append(chunk("x"), chunk("y", "b")),
    ):
        refused = refusal(answer)
        assert refused is not None and (refused.reason, refused.code) == (reason, "FAILED_PRECONDITION")
        assert limit in refused.message and log.row == before
    assert refusal(log.append(chunk("x" * 600))) is None


def test_the_end_has_room_in_a_full_task() -> None:
    """L1: it fails with the reason, or is canceled."""
    for end in (FAILED, CANCELED):
        log = with_room(0, 0)
        refused = refusal(log.append(chunk("x")))
        assert refused is not None and refused.reason == "TOO_MANY_EVENTS"
        assert refusal(log.append(status(end, message("it is full", "m-end")))) is None
        assert log.state == end


def test_an_end_that_is_too_large_is_refused() -> None:
    """L1: so that every stored task can be read. A shorter end is accepted."""
    log = with_room(100, 0)
    refused = refusal(log.append(status(FAILED, message("x" * END_BYTES, "m-end"))))
    assert refused is not None and refused.reason == "TASK_TOO_LARGE" and log.state == WORKING
    assert refusal(log.append(status(FAILED, message("x", "m-end")))) is None
