"""The fields that the rules read in a task that a runtime keeps."""

from typing import Any

import pytest

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.messages import turn_of

KAGENT, ADK = "kagent_invocation_id", "adk_invocation_id"


def document(
    task: dict[str, Any] | None = None, *said: dict[str, Any], status: dict[str, Any] | None = None
) -> a2a.Task:
    """A task with this metadata, that of the messages of its history, and that of its status."""
    made = a2a.Task(id="t")
    for one in said:
        made.history.add().metadata.update(one)
    if task is not None:
        made.metadata.update(task)
    if status is not None:
        made.status.message.metadata.update(status)
    return made


@pytest.mark.parametrize(
    ("task", "turn"),
    [
        (document(), None),
        (document({"other": "x"}, {"other": "x"}), None),
        (document({KAGENT: "i3"}, {KAGENT: "i1"}, status={KAGENT: "i2"}), "i3"),
        (document(None, {KAGENT: "i1"}, {KAGENT: "i2"}, {}), "i2"),
        (document({}, {KAGENT: "i1"}, status={KAGENT: "i2"}), "i2"),
        (document({ADK: "i1"}), "i1"),
        (document({ADK: "i1", KAGENT: "i2"}), "i2"),
        (document({KAGENT: 7, ADK: ""}, {KAGENT: "i1"}), "i1"),
        (document({KAGENT: "x" * 256}), None),
        (document({KAGENT: "a\0b"}), None),
    ],
)
def test_a_document_is_of_the_turn_that_it_names_last(task: a2a.Task, turn: str | None) -> None:
    """R1, R10: in its metadata, in that of its status, or in that of its newest message; reading changes nothing."""
    before = task.SerializeToString(deterministic=True)
    assert turn_of(task) == turn
    assert task.SerializeToString(deterministic=True) == before
