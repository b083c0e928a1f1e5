"""What is read from stored entries: turns and rewind targets of runtimes' events, turns of pushed messages."""

import json

import pytest
from tests.conformance.session_log import message

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain.payload import keep_messages, listed, messages, pack, read_event, unpack_pushed


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"invocation_id": "i", "actions": {"rewind_before_invocation_id": "t"}}', ("i", "t")),
        ('{"invocationId": "i", "actions": {"rewindBeforeInvocationId": "t"}}', ("i", "t")),
        ('{"invocation_id": "i", "actions": {"rewind_before_invocation_id": null}}', ("i", "")),
        ('{"invocation_id": null, "invocationId": "i"}', ("i", "")),
        ('{"invocation_id": 7, "actions": []}', ("", "")),
        ('{"actions": {"rewind_before_invocation_id": {"a": 1}}}', ("", "")),
        ('{"score": NaN, "invocation_id": "i"}', ("i", "")),
        ("[]", ("", "")),
        ("", ("", "")),
        ("{", ("", "")),
        ("[" * 200_000, ("", "")),
        (json.dumps({"invocation_id": "\ud800"}), ("", "")),
        (json.dumps({"invocation_id": "x" * 256}), ("", "")),
        (json.dumps({"invocation_id": "a\nb"}), ("", "")),
    ],
)
def test_turn_and_rewind_target_are_read_from_an_event(data: str, expected: tuple[str, str]) -> None:
    """R10: in both spellings; a missing, wrong or malformed value is read as an empty text."""
    assert read_event(data)[:2] == expected


def test_the_turns_of_pushed_messages_are_written_as_lines() -> None:
    """A line has the turn of one message. A tab marks a turn of which messages were left out."""
    pushed = pb.Messages(messages=[message("1", invocation="A"), message("2"), message("3", invocation="a\nb")])
    assert listed(pushed) == "A\n\n\n"
    assert listed(pb.Messages()) == ""
    pushed = pb.Messages(messages=[message("1"), message("2", invocation="B"), message("3")])
    pushed.messages[0].metadata.fields["adk_invocation_id"].string_value = "A"
    pushed.invocation_ids.extend(["x", "y", "C"])
    pushed.reduced_invocation_ids.append("C")
    assert listed(pushed) == "A\nB\n\tC\n"
    whole = pack(pb.Entry(id="p", pushed=pushed), "pushed")
    assert listed(unpack_pushed(keep_messages(whole, [1, 2]))) == "B\nC\n"


def test_a_payload_keeps_all_or_some_of_its_messages() -> None:
    entry = pb.Entry(id="p", pushed=pb.Messages(messages=[message("1"), message("2"), message("3")]))
    payload = pack(entry, "pushed")
    assert messages(payload) == list(entry.pushed.messages)
    assert messages(keep_messages(payload, [0, 2])) == [message("1"), message("3")]
    assert keep_messages(payload, [0, 1, 2]) == payload
    assert messages(pack(pb.Entry(message=message("1")), "message")) == [message("1")]
    assert pack(pb.Entry(id="x"), None) is None


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 16_000, 16_384, 300_000])
@pytest.mark.parametrize("which", ["message", "data", "pushed"])
def test_an_entry_is_stored_without_the_fields_beside_its_payload(which: str, size: int) -> None:
    said = a2a.Message(message_id="x" * size)
    payloads = {
        "message": pb.Entry(message=said),
        "data": pb.Entry(data="\N{SNOWMAN}" * size),
        "pushed": pb.Entry(pushed=pb.Messages(messages=[said])),
    }
    payload = payloads[which]
    given = pb.Entry(id="i", kind=pb.ENTRY_KIND_EVENT, actor="a")
    given.MergeFrom(payload)
    assert pack(given, which) == payload.SerializeToString()
