"""The fields that are read in payloads: events of agent runtimes, turns that pushed messages name."""

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
def test_an_event_says_its_turn_and_what_it_rewinds_before_or_nothing(data: str, expected: tuple[str, str]) -> None:
    """R10."""
    assert read_event(data)[:2] == expected


def test_pushed_messages_name_their_turns_line_by_line() -> None:
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


def test_a_payload_is_kept_whole_or_in_part() -> None:
    entry = pb.Entry(id="p", pushed=pb.Messages(messages=[message("1"), message("2"), message("3")]))
    payload = pack(entry, "pushed")
    assert messages(payload) == list(entry.pushed.messages)
    assert messages(keep_messages(payload, [0, 2])) == [message("1"), message("3")]
    assert keep_messages(payload, [0, 1, 2]) == payload
    assert messages(pack(pb.Entry(message=message("1")), "message")) == [message("1")]
    assert pack(pb.Entry(id="x"), None) is None


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 16_000, 16_384, 300_000])
@pytest.mark.parametrize("which", ["message", "data", "pushed"])
def test_what_is_stored_is_an_entry_with_the_payload_alone(which: str, size: int) -> None:
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
