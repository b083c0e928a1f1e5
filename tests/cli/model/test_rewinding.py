"""Rewind and undo in the model of a conversation (R11)."""

from typing import Any

import pytest

from taskplane.cli.model.session_tasks import TaskInfo
from taskplane.cli.model.transcript import Transcript
from taskplane.client.events import Message, classify, read_message
from taskplane.client.failures import Declined, Missing, failure_of_rpc

TEXTS = {"u1": "first", "u2": "second", "u3": "third"}


def message(id: str, turn: str, task_id: str = "") -> dict[str, Any]:
    role = "user" if id.startswith("u") else "agent"
    body = {"messageId": id, "role": role, "parts": [{"text": TEXTS.get(id, id)}]}
    return {**body, "taskId": task_id, "metadata": {"kagent_invocation_id": turn}}


def turn(number: int, state: str = "completed") -> dict[str, Any]:
    """A task of one turn: a message of the user and an answer of the agent."""
    history = [message(f"{who}{number}", f"i{number}", f"t{number}") for who in "ua"]
    return {"task": {"id": f"t{number}", "contextId": "c", "status": {"state": state}, "history": history}}


def session(*numbers: int, state: str = "completed", said: str = "") -> dict[str, Any]:
    """The session as one task, which is the answer to a rewind."""
    history = [message(f"{who}{number}", f"i{number}", f"t{number}") for number in numbers for who in "ua"]
    status = {"state": state, **({"message": {"messageId": "x", "parts": [{"text": said}]}} if said else {})}
    return {"task": {"id": "c", "contextId": "c", "status": status, "history": history}}


def status(number: int, state: str, id: str = "") -> dict[str, Any]:
    said = {"message": message(id, f"i{number}", f"t{number}")} if id else {}
    return {"statusUpdate": {"taskId": f"t{number}", "contextId": "c", "status": {"state": state, **said}}}


def three() -> Transcript:
    conversation = Transcript("c")
    for number in (1, 2, 3):
        conversation.apply(classify(turn(number)))
    return conversation


def ids(conversation: Transcript) -> list[str]:
    return [message.id for message in conversation.messages]


def tasks(conversation: Transcript) -> list[str]:
    return [task.id for task in conversation.session.tasks]


def test_r11_the_list_is_cut_at_once_and_the_cut_text_is_given_back() -> None:
    conversation = three()
    assert conversation.rewind("i2") == "second"
    assert (ids(conversation), tasks(conversation)) == (["u1", "a1"], ["t1"])
    assert conversation.rewinding
    assert conversation.next_message().reference_task_ids == ("t1",)


def test_r11_the_history_of_the_answer_replaces_the_guessed_messages() -> None:
    """T7: concurrent turns may be kept even if they are listed after the cut turn."""
    conversation = three()
    conversation.rewind("i2")
    conversation.apply(classify(session(1, 3)), answers_rewind=True)
    assert (ids(conversation), tasks(conversation)) == (["u1", "a1", "u3", "a3"], ["t1", "t3"])
    assert not conversation.rewinding


def test_t7_an_answer_without_a_history_leaves_nothing() -> None:
    conversation = three()
    conversation.rewind("i2")
    conversation.apply(classify(session()), answers_rewind=True)
    assert (ids(conversation), tasks(conversation), conversation.rewinding) == ([], [], False)


def test_r11_a_failed_answer_restores_everything_and_shows_its_reason() -> None:
    """R9: a rewind that is refused changes nothing."""
    conversation = three()
    conversation.rewind("i2")
    conversation.apply(classify(session(state="failed", said="no turn i2")), answers_rewind=True)
    assert (ids(conversation), tasks(conversation)) == (["u1", "a1", "u2", "a2", "u3", "a3"], ["t1", "t2", "t3"])
    assert conversation.notice == "no turn i2"
    assert not conversation.rewinding


def test_r11_an_error_restores_everything_and_keeps_messages_that_arrived_meanwhile() -> None:
    conversation = Transcript("c")
    for event in (turn(1), turn(2, "working")):
        conversation.apply(classify(event))
    conversation.rewind("i2")
    conversation.apply(classify(status(2, "completed", "b2")))
    assert ids(conversation) == ["u1", "a1"]
    conversation.restore()
    assert ids(conversation) == ["u1", "a1", "u2", "a2", "b2"]
    latest = conversation.session.latest
    assert latest is not None
    assert latest.state == "completed"


def test_r11_a_rewind_that_succeeded_restores_nothing_if_the_next_turn_is_refused() -> None:
    conversation = Transcript("c")
    for event in (turn(1), turn(2, "working")):
        conversation.apply(classify(event))
    conversation.rewind("i2")
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "metadata": {"rewound": "true"}}
    assert failure_of_rpc({"code": -32004, "message": "busy", "data": [info]}).rewound
    conversation.rewound()
    conversation.restore()
    conversation.apply(classify(status(2, "completed", "b2")))
    assert (ids(conversation), tasks(conversation), conversation.rewinding) == (["u1", "a1"], ["t1"], False)


def test_r11_only_one_rewind_runs_at_a_time() -> None:
    conversation = three()
    conversation.rewind("i3")
    with pytest.raises(Declined, match="under way") as refused:
        conversation.rewind("i2")
    assert refused.value.reason == "REWIND_IN_FLIGHT"
    conversation.restore()
    assert conversation.rewind("i2") == "second"


def test_r11_a_rewind_is_not_offered_on_the_first_message_nor_without_an_invocation() -> None:
    conversation = three()
    conversation.say(Message("u4", "user", [{"text": "not sent yet"}]))
    assert [(turn.number, turn.message.id, turn.can_rewind) for turn in conversation.turns] == [
        (1, "u1", False),
        (2, "u2", True),
        (3, "u3", True),
    ]
    with pytest.raises(Declined) as refused:
        conversation.rewind("i1")
    assert refused.value.reason == "FIRST_MESSAGE"
    for unknown in ("", "i9"):
        with pytest.raises(Missing):
            conversation.rewind(unknown)
    assert len(ids(conversation)) == 7


def test_late_events_of_a_cut_run_are_dropped() -> None:
    conversation = three()
    conversation.rewind("i2")
    conversation.apply(classify(session(1)), answers_rewind=True)
    late = {"messageId": "b3", "role": "agent", "parts": [{"text": "late"}], "metadata": {"kagent_invocation_id": "i3"}}
    for event in (turn(2), status(3, "completed", "b3"), {"message": late}):
        conversation.apply(classify(event))
    assert (ids(conversation), tasks(conversation)) == (["u1", "a1"], ["t1"])


def test_r6_the_next_message_of_a_rewind_stays_and_its_task_follows() -> None:
    conversation = three()
    conversation.rewind("i2")
    conversation.say(read_message({"messageId": "u4", "role": "user", "parts": [{"text": "anew"}]}))
    assert ids(conversation) == ["u1", "a1", "u4"]
    conversation.apply(classify(session(1)), answers_rewind=True)
    for event in (status(4, "submitted"), status(4, "completed", "a4")):
        conversation.apply(classify(event))
    assert (ids(conversation), tasks(conversation)) == (["u1", "a1", "u4", "a4"], ["t1", "t4"])


def test_r11_a_failed_rewind_takes_back_the_next_message() -> None:
    conversation = three()
    conversation.rewind("i2")
    said = Message("u4", "user", [{"text": "anew"}])
    conversation.say(said)
    conversation.apply(classify(session(state="failed")), answers_rewind=True)
    conversation.unsay(said)
    assert ids(conversation) == ["u1", "a1", "u2", "a2", "u3", "a3"]


def test_a_task_with_a_cut_answer_is_superseded_and_takes_no_more_messages() -> None:
    """R4: the remaining messages of the task are history only."""
    conversation = Transcript("c")
    asked = turn(1, "input-required")
    asked["task"]["history"] += [message("u2", "i2", "t1"), message("a2", "i2", "t1")]
    conversation.apply(classify(asked))
    conversation.rewind("i2")
    assert conversation.next_message().task_id == ""
    conversation.apply(classify(session(1)), answers_rewind=True)
    assert (ids(conversation), tasks(conversation)) == (["u1", "a1"], [])
    conversation.apply(classify(asked))
    assert ids(conversation) == ["u1", "a1"]


def test_r8_after_an_undo_messages_and_tasks_are_those_of_the_server() -> None:
    conversation = three()
    made = {"taskId": "t3", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "made"}]}}
    conversation.apply(classify({"artifactUpdate": made}))
    conversation.rewind("i2")
    conversation.apply(classify(session(1)), answers_rewind=True)
    assert conversation.artifacts == {}
    history = [read_message(body) for body in session(1, 2, 3)["task"]["history"]]
    conversation.undone(history, [TaskInfo("t1", "completed"), TaskInfo("t2", "canceled"), TaskInfo("t3", "completed")])
    assert ids(conversation) == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert tasks(conversation) == ["t1", "t2", "t3"]
    assert list(conversation.artifacts) == [("t3", "a")]
    conversation.apply(classify(turn(3)))
    assert len(ids(conversation)) == 6


def test_m4_an_old_snapshot_of_an_ended_task_removes_nothing() -> None:
    conversation = three()
    old = turn(2, "working")
    del old["task"]["history"][1]
    conversation.apply(classify(old))
    assert ids(conversation) == ["u1", "a1", "u2", "a2", "u3", "a3"]
