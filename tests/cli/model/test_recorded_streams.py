"""The display rules, held to the same recorded streams as the page (tests/cases/conversations.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from taskplane.cli.model.session_tasks import read_session_tasks
from taskplane.cli.model.transcript import Transcript
from taskplane.client.events import classify, read_message, read_task
from taskplane.client.failures import Failure

CASES = json.loads((Path(__file__).parents[2] / "cases" / "conversations.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_t7_a_recorded_stream_shows_the_expected_conversation(case: dict[str, Any]) -> None:
    """T5, T6, T7, M2, M4, M5, R6, R8, R9, R11, P4, I6: each case names its requirement."""
    conversation = Transcript("c")
    for step in case["steps"]:
        do(conversation, step)
    assert seen(conversation, case["expected"]) == case["expected"]


def do(conversation: Transcript, step: dict[str, Any]) -> None:
    """Take one step of a case."""
    match step:
        case {"event": body}:
            conversation.apply(classify(body), answers_rewind=step.get("answersRewind", False))
        case {"load": tasks}:
            conversation.load(map(read_task, tasks))
        case {"say": message}:
            conversation.say(read_message(message))
        case {"unsay": id}:
            conversation.unsay(next(message for message in conversation.messages if message.id == id))
        case {"rewind": invocation, "gives": text}:
            assert conversation.rewind(invocation) == text
        case {"rewind": invocation, "refused": code}:
            with pytest.raises(Failure) as refused:
                conversation.rewind(invocation)
            assert refused.value.reason == code
        case {"restore": True}:
            conversation.restore()
        case {"rewound": True}:
            conversation.rewound()
        case {"undo": {"messages": messages, "tasks": tasks}}:
            conversation.undone(map(read_message, messages), read_session_tasks({"tasks": tasks}).tasks)
        case {"expect": expected}:
            assert seen(conversation, expected) == expected
        case _:
            pytest.fail(f"an unknown step: {step}")


def seen(conversation: Transcript, expected: dict[str, Any]) -> dict[str, Any]:
    """Return the shown conversation, restricted to the kinds of the expectation."""
    session = conversation.session
    incomplete = session.latest_incomplete
    goes_to = conversation.next_message()
    tools = [tool for message in conversation.messages for tool in message.tools]
    changes = {task.id: [change.state for change in task.changes] for task in session.tasks}
    everything: dict[str, Any] = {
        "messages": [f"{message.role} {message.id}: {message.text}" for message in conversation.messages],
        "interrupted": [message.id for message in conversation.messages if message.interrupted],
        "tools": [f"{'call' if tool.called else 'result'} {tool.id} {tool.name}" for tool in tools],
        "live": {task: f"{live.message_id}: {live.text}" for task, live in conversation.live.items()},
        "progress": conversation.progress,
        "artifacts": {
            "/".join(key): "".join(str(part.get("text", "")) for part in artifact.parts)
            for key, artifact in conversation.artifacts.items()
        },
        "versions": {"/".join(key): count for key, count in conversation.versions.items()},
        "tasks": [f"{task.id} {task.state}" for task in session.tasks],
        "errors": {task.id: task.error for task in session.tasks if task.error},
        "changes": {task: changes.get(task) for task in expected.get("changes", {})},
        "incomplete": incomplete.id if incomplete else "",
        "continuation": {"taskId": goes_to.task_id, "referenceTaskIds": list(goes_to.reference_task_ids)},
        "turns": [turn.message.invocation_id for turn in conversation.turns],
        "rewinding": conversation.rewinding,
        "notice": conversation.notice,
        "unknown": conversation.unknown,
    }
    return {key: everything[key] for key in expected}
