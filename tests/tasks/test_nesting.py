"""Requests that pass without a look at their values can be read again; those that cannot are still refused."""

from collections.abc import Callable, Sequence

import pytest
from google.protobuf.struct_pb2 import Value
from hypothesis import given
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import nesting
from taskplane.runtime.errors import Invalid
from taskplane.runtime.nesting import surely_shallow
from taskplane.tasks import request_checks
from taskplane.tasks.domain.changes import read_message
from taskplane.tasks.domain.commands import Append
from taskplane.tasks.wire import read_changes

HASH = b"h" * 32
# Texts, too, have the bytes that are the tags of nested values.
texts = st.text("*2a", max_size=4)


def straight(kind: str, levels: int) -> list[str]:
    return [kind] * levels


shapes = st.one_of(
    st.lists(st.sampled_from("ol"), max_size=70),
    # Around the most that is allowed: three messages for an object, two for a list.
    st.builds(straight, st.sampled_from("ol"), st.integers(22, 44)),
)


def nested(shape: Sequence[str], text: str = "") -> Value:
    """Objects ("o") and lists ("l") in one another, the first one outermost, around a text or nothing."""
    value = Value(string_value=text) if text else Value()
    for kind in reversed(shape):
        outer = Value()
        if kind == "o":
            outer.struct_value.fields["k"].CopyFrom(value)
        else:
            outer.list_value.values.add().CopyFrom(value)
        value = outer
    return value


def saying(value: Value, *, beside: str = "hi") -> a2a.Message:
    made = a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text=beside)])
    made.parts.add().data.CopyFrom(value)
    return made


def with_metadata(value: Value, *, beside: str = "hi") -> a2a.Message:
    made = a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text=beside)])
    made.metadata.fields["k"].CopyFrom(value)
    return made


MADE = pytest.mark.parametrize("make", [saying, with_metadata])


def readable(message: a2a.Message) -> bool:
    """Return whether the largest reply can be read with this message in it."""
    reply = pb.WatchTaskResponse(end=pb.End(record=pb.TaskRecord(task=a2a.Task(history=[message]))))
    try:
        return pb.WatchTaskResponse.FromString(reply.SerializeToString()) == reply
    except Exception:  # noqa: BLE001 - the parser has an error of its own for each implementation
        return False


def looked_at(message: a2a.Message) -> bool:
    """Return the result of a look at every value: the check that surely shallow messages are spared."""
    return passes(lambda: nesting.check("message", message))


def accepted(message: a2a.Message) -> bool:
    """Return whether a user may send it, and whether an executor may."""
    request = pb.AddMessageRequest(task_id="t", invocation_id="i", request_hash=HASH)
    request.message.CopyFrom(message)
    change = pb.Change()
    change.status.status.state = a2a.TASK_STATE_WORKING
    change.status.status.message.CopyFrom(message)
    by_user = passes(lambda: request_checks.add_message(request, read_message(message)))
    assert passes(lambda: append(change)) == by_user
    return by_user


def append(change: pb.Change) -> None:
    changes = read_changes([change], "changes")
    request_checks.append([Append(actor="e", task_uid="u", fence=1, number=1, changes=changes)])


def passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except Invalid as refused:
        assert refused.reason == "TOO_DEEP"
        return False
    return True


@MADE
@given(shapes, texts, st.integers(0, 400))
def test_a_surely_shallow_message_passes_the_check_and_can_be_read(
    make: Callable[..., a2a.Message], shape: list[str], text: str, beside: int
) -> None:
    message = make(nested(shape, text), beside="x" * beside)
    if surely_shallow(message.SerializeToString()):
        assert looked_at(message)
        assert readable(message)


@MADE
@given(shapes, texts)
def test_a_request_is_refused_exactly_if_the_check_of_its_values_fails(
    make: Callable[..., a2a.Message], shape: list[str], text: str
) -> None:
    message = make(nested(shape, text))
    assert accepted(message) == looked_at(message)
    if accepted(message):
        assert readable(message)


@MADE
@pytest.mark.parametrize("kind", ["o", "l"])
def test_one_level_beyond_the_maximum_is_refused(make: Callable[..., a2a.Message], kind: str) -> None:
    """With any other content of the message."""
    allowed = [levels for levels in range(1, 48) if accepted(make(nested(kind * levels)))]
    deepest = allowed[-1]
    assert allowed == list(range(1, deepest + 1))
    assert deepest > 24
    for beside in ("hi", "x" * 300, "*2" * 300):
        assert accepted(make(nested(kind * deepest), beside=beside))
        assert not accepted(make(nested(kind * (deepest + 1)), beside=beside))


@pytest.mark.parametrize(("levels", "passes_"), [(20, True), (30, False), (33, False), (40, False)])
@pytest.mark.parametrize("text", ["x", "\0"], ids=["sound", "looked at twice"])
def test_an_artifact_too_deep_is_refused(levels: int, passes_: bool, text: str) -> None:
    """Also where it is so deep that it cannot be read here, as nobody has before who sends it from the same process."""
    change = pb.Change()
    change.artifact.artifact.artifact_id = "a"
    change.artifact.artifact.parts.add().raw = text.encode()
    change.artifact.artifact.metadata.fields["k"].CopyFrom(nested("o" * levels))
    assert passes(lambda: append(change)) is passes_


@MADE
@pytest.mark.parametrize("levels", [1, 60, 90, 98])
@pytest.mark.parametrize("beside", [0, 300])
def test_a_message_with_too_deep_unknown_groups_is_refused(
    make: Callable[..., a2a.Message], levels: int, beside: int
) -> None:
    message = make(nested("", "t"), beside="x" * beside)
    message.MergeFromString(b"\x9b\x06" * levels + b"\x9c\x06" * levels)
    assert readable(message) if accepted(message) else levels + beside > 60


def test_an_unknown_field_that_is_not_a_group_passes_with_any_content() -> None:
    message = a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text="hi")])
    message.MergeFromString(b"\x9a\x06\xc8\x01" + b"\x9b" * 200)
    assert accepted(message)
