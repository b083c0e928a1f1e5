"""The words that began a task, read from an event that may be cut off."""

from itertools import pairwise

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.asked import MOST_ASKED, PATH, asked_of


def created(*parts: a2a.Part) -> bytes:
    """The event of a task that began with a message of these parts."""
    metadata = Struct()
    metadata.update({"text": "not what was asked", "deep": {"number": 1.5, "list": [True, None]}})
    message = a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=parts, metadata=metadata, extensions=["x"])
    status = a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED)
    status.timestamp.FromSeconds(1)
    task = a2a.Task(id="t", context_id="c", status=status, history=[message], metadata=metadata)
    return a2a.StreamResponse(task=task).SerializeToString()


def test_the_path_to_a_text_is_that_of_the_contract() -> None:
    names = ((a2a.StreamResponse, "task"), (a2a.Task, "history"), (a2a.Message, "parts"), (a2a.Part, "text"))
    assert tuple(kind.DESCRIPTOR.fields_by_name[name].number for kind, name in names) == PATH


def test_the_text_is_that_of_all_text_parts_up_to_a_limit() -> None:
    """V1: no other part of the message is read."""
    values = Struct()
    values.update({"text": "a value"})
    data = a2a.Part(filename="a file")
    data.data.struct_value.CopyFrom(values)
    assert asked_of(created(a2a.Part(text=" Grüße\n"), data, a2a.Part(text="and more "))) == "Grüße\n\nand more"
    assert asked_of(created(a2a.Part(text="ä" * 1000))) == "ä" * MOST_ASKED
    for without in (created(data), created(a2a.Part(raw=b"text")), created(), b""):
        assert asked_of(without) == ""


def test_a_message_that_is_cut_off_is_read_as_far_as_possible() -> None:
    """V1: cut at any byte, also within a character and a length."""
    whole = created(a2a.Part(text="Wörter " * 9, filename="x"), a2a.Part(text="z" * 300))
    found = [asked_of(whole[:size]) for size in range(len(whole) + 1)]
    assert found[0] == "" and found[-1] == asked_of(whole) and len(found[-1]) == MOST_ASKED
    assert all(later.startswith(earlier) for earlier, later in pairwise(found))


def test_bytes_that_are_no_event_have_no_words() -> None:
    for odd in (b"\xff" * 50, b"\x0a", b"\x0a\x7f", b"\x0d\x01\x02\x03\x04\x09" + bytes(8), bytes(range(256))):
        assert isinstance(asked_of(odd), str)
