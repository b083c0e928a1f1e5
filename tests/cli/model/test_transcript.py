"""The display rule: the shown conversation after each event (T7)."""

import logging
from typing import Any

import pytest

from taskplane.cli.model.transcript import Live, Transcript
from taskplane.client.events import Message, classify, read_task


def message(id: str, text: str = "", role: str = "agent", **metadata: Any) -> dict[str, Any]:
    return {"messageId": id, "role": role, "parts": [{"text": text or id}], "metadata": metadata}


def task(id: str, state: str = "completed", *history: str, said: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "task": {
            "id": id,
            "contextId": "c",
            "status": {"state": state, **({"message": said} if said else {})},
            "history": [message(item, role="user" if item.startswith("u") else "agent") for item in history],
        }
    }


def status(id: str, state: str, said: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"taskId": id, "contextId": "c", "status": {"state": state, **({"message": said} if said else {})}}
    return {"statusUpdate": body}


def chunk(text: str, *, append: bool = True, artifact: str = "a") -> dict[str, Any]:
    body = {"artifactId": artifact, "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t1", "contextId": "c", "artifact": body, "append": append}}


def partial(id: str, text: str) -> dict[str, Any]:
    return message(id, text, kagent_adk_partial=True)


def applied(*events: dict[str, Any], conversation: Transcript | None = None, rewind: bool = False) -> Transcript:
    conversation = conversation or Transcript("c")
    for event in events:
        conversation.apply(classify(event), answers_rewind=rewind)
    return conversation


def ids(conversation: Transcript) -> list[str]:
    return [message.id for message in conversation.messages]


def test_t7_a_full_task_replaces_only_the_messages_of_its_own_task() -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"), task("t2", "completed", "u2", "a2"))
    applied(task("t1", "completed", "u1", "a1", "a1b"), conversation=conversation)
    assert ids(conversation) == ["u1", "a1", "a1b", "u2", "a2"]


def test_t7_a_second_turn_that_opens_with_a_task_leaves_the_first_turn_alone() -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"), task("t2", "submitted", "u2"))
    assert ids(conversation) == ["u1", "a1", "u2"]


def test_t7_the_task_of_the_session_replaces_the_whole_conversation() -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"), task("t2", "completed", "u2", "a2"))
    applied(task("c", "completed", "u1", "a1"), conversation=conversation)
    assert ids(conversation) == ["u1", "a1"]
    assert not conversation.session.running


def test_t7_a_task_that_answers_a_rewind_of_this_client_replaces_the_whole_conversation() -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"), task("t2", "completed", "u2", "a2"))
    applied(task("t9", "completed", "u1", "a1"), conversation=conversation, rewind=True)
    assert ids(conversation) == ["u1", "a1"]


@pytest.mark.parametrize(("id", "rewind"), [("c", False), ("c", True), ("t9", True)])
def test_t7_a_completed_rewind_before_the_first_turn_leaves_nothing(id: str, rewind: bool) -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"))
    applied(task(id), conversation=conversation, rewind=rewind)
    assert ids(conversation) == []


@pytest.mark.parametrize(("id", "rewind"), [("c", False), ("t9", True)])
def test_t7_a_failed_rewind_replaces_nothing_and_shows_its_reason(id: str, rewind: bool) -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"))
    applied(task(id, "failed", "u7", said=message("x", "no such turn")), conversation=conversation, rewind=rewind)
    assert ids(conversation) == ["u1", "a1"]
    assert conversation.notice == "no such turn"


def test_t7_a_task_without_history_replaces_nothing() -> None:
    conversation = applied(task("t1", "completed", "u1", "a1"))
    conversation.say(Message("u2", "user", [{"text": "next"}]))
    applied(task("t2", "working"), conversation=conversation)
    assert ids(conversation) == ["u1", "a1", "u2"]
    assert conversation.session.running


def test_t7_a_full_task_clears_the_streaming_text_and_makes_the_chat_ready() -> None:
    conversation = applied(task("t1", "working", "u1"), status("t1", "working", partial("a1", "hal")))
    assert conversation.live == {"t1": Live("a1", "hal")}
    applied(task("t1", "completed", "u1", "a1"), conversation=conversation)
    assert conversation.live == {}
    assert not conversation.session.running


def test_t7_unknown_events_are_counted_logged_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        conversation = applied(task("t1", "completed", "u1"), {"kind": "surprise", "parts": [{"text": "boo"}]})
    assert ids(conversation) == ["u1"]
    assert conversation.unknown == 1
    assert list(conversation.unknown_events) == [{"kind": "surprise", "parts": [{"text": "boo"}]}]
    assert len(caplog.records) == 1


def test_t7_a_snapshot_repeats_nothing_and_keeps_the_position_of_the_users_message() -> None:
    conversation = Transcript("c")
    conversation.say(Message("u1", "user", [{"text": "hello"}]))
    applied(task("t1", "working", "u1"), status("t1", "working", message("a1")), conversation=conversation)
    applied(task("t1", "working", "u1", said=message("a1")), conversation=conversation)
    assert ids(conversation) == ["u1", "a1"]


def test_t6_of_a_repeated_message_the_first_is_shown() -> None:
    conversation = Transcript()
    conversation.load(
        read_task(task(*item)["task"]) for item in [("t1", "completed", "u1", "a1", "a1"), ("t2", "failed", "a1", "u2")]
    )
    assert ids(conversation) == ["u1", "a1", "u2"]
    assert conversation.context_id == "c"


def test_t5_partial_texts_grow_one_live_text_that_the_final_message_replaces() -> None:
    conversation = applied(
        task("t1", "working", "u1"),
        status("t1", "working", partial("a1", "hel")),
        status("t1", "working", partial("a1", "lo")),
    )
    assert ids(conversation) == ["u1"]
    assert conversation.live == {"t1": Live("a1", "hello")}
    applied(status("t1", "working", message("a1", "hello!")), conversation=conversation)
    assert conversation.live == {}
    assert conversation.messages[-1].text == "hello!"


def test_a_snapshot_in_mid_text_keeps_growing_at_the_same_position() -> None:
    conversation = applied(
        task("t1", "working", "u1", said=partial("a1", "hel")),
        status("t1", "working", partial("a1", "lo")),
    )
    assert ids(conversation) == ["u1"]
    assert conversation.live == {"t1": Live("a1", "hello")}


def test_a_tool_call_does_not_end_the_growing_text() -> None:
    call = {"messageId": "k", "role": "agent", "parts": [{"data": {}, "metadata": {"kagent_type": "function_call"}}]}
    conversation = applied(task("t1", "working", "u1"), status("t1", "working", partial("a1", "hel")))
    applied(status("t1", "working", call), conversation=conversation)
    assert conversation.live == {"t1": Live("a1", "hel")}


def test_a_text_cut_off_by_the_end_of_its_task_stays_and_is_marked() -> None:
    conversation = applied(task("t1", "working", "u1"), status("t1", "working", partial("a1", "hel")))
    applied(status("t1", "canceled"), conversation=conversation)
    assert conversation.live == {}
    assert (conversation.messages[-1].text, conversation.messages[-1].interrupted) == ("hel", True)


def test_p4_the_status_text_is_one_line_beside_the_chat_and_ends_with_the_task() -> None:
    conversation = applied(
        task("t1", "working", "u1"), status("t1", "working", message("s", "reading", kind="status-message"))
    )
    assert conversation.progress == {"t1": "reading"}
    applied(status("t1", "completed", message("a1")), conversation=conversation)
    assert conversation.progress == {}
    assert ids(conversation) == ["u1", "a1"]


def test_m4_a_late_event_does_not_revive_an_ended_task() -> None:
    conversation = applied(task("t1", "working", "u1"), status("t1", "canceled"))
    applied(status("t1", "working", message("late")), task("t1", "working"), conversation=conversation)
    assert [(info.id, info.state) for info in conversation.session.tasks] == [("t1", "canceled")]
    assert ids(conversation) == ["u1"]


def test_m3_the_latest_incomplete_task_is_the_newest_that_has_not_ended() -> None:
    conversation = applied(task("t1", "failed", "u1", said=message("x", "broken")), task("t2", "input-required", "u2"))
    assert conversation.session.tasks[0].error == "broken"
    assert conversation.session.latest_incomplete is conversation.session.find("t2")
    assert not conversation.session.running
    applied(status("t2", "completed"), conversation=conversation)
    assert conversation.session.latest_incomplete is None


def test_t7_artifact_chunks_append_and_a_new_beginning_is_a_new_version() -> None:
    conversation = applied(chunk("one ", append=False), chunk("two"))
    assert conversation.artifacts["t1", "a"].parts == [{"text": "one two"}]
    applied(chunk("new", append=False), conversation=conversation)
    assert conversation.artifacts["t1", "a"].parts == [{"text": "new"}]
    assert conversation.versions["t1", "a"] == 2


def test_a_direct_message_is_shown_once_and_makes_no_task() -> None:
    direct = {"message": message("a1")}
    conversation = applied(direct, direct)
    assert ids(conversation) == ["a1"]
    assert conversation.session.tasks == []


def test_t7_after_a_rewind_the_last_task_is_the_last_shown_task() -> None:
    conversation = applied(task("t1", "completed", "u1"), task("t2", "completed", "u2"))
    session = task("c", "completed", "u1")
    session["task"]["history"][0]["taskId"] = "t1"
    applied(session, conversation=conversation, rewind=True)
    assert conversation.next_message().reference_task_ids == ("t1",)
