"""Every command of the demo agent, end to end through real stores."""

import unicodedata

import pytest
from google.protobuf.json_format import MessageToDict
from tests.executor.plane import Plane, Stores, holds, open_plane, said, text

from taskplane.agents.agent import Policied, Router
from taskplane.agents.demo import CREDENTIAL, PASSWORD, Demo
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

STATUS = tasks.EVENT_KIND_STATUS
ARTIFACT = tasks.EVENT_KIND_ARTIFACT


async def test_echo_streams_its_words_and_completes_with_the_whole_message(plane: Plane) -> None:
    reference = await plane.submit("echo hello brave world")
    task = await plane.at_rest(reference)
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    assert text(task.status.message) == "hello brave world"
    said = [e.event.status_update.status.message for e in await plane.events(task.id, STATUS)]
    partial = [m for m in said if "kagent_adk_partial" in m.metadata.fields]
    assert "".join(text(m) for m in partial) == "hello brave world"
    assert {m.message_id for m in partial} == {task.status.message.message_id}


@pytest.mark.parametrize("words", ["Anything else", "", "  two  spaces "])
async def test_anything_else_is_echoed(plane: Plane, words: str) -> None:
    assert text((await plane.run(words)).status.message) == words


async def test_chunks_makes_the_given_number_of_events(plane: Plane) -> None:
    task = await plane.run("chunks 600 100")
    events = [event.event.artifact_update for event in await plane.events(task.id, ARTIFACT)]
    assert len(events) == 600
    assert not events[0].append and all(event.append for event in events[1:])
    assert events[-1].last_chunk and not any(event.last_chunk for event in events[:-1])
    assert {len(event.artifact.parts[0].text) for event in events} == {100}
    (artifact,) = task.artifacts
    assert len(artifact.parts[0].text) == 60_000
    assert task.status.state == a2a.TASK_STATE_COMPLETED


async def test_slow_and_rerun_send_one_event_per_chunk(plane: Plane) -> None:
    for command, policy in (("slow", tasks.ON_ORPHAN_FAIL), ("rerun", tasks.ON_ORPHAN_RERUN)):
        task = await plane.run(f"{command} 2")
        assert len(await plane.events(task.id, ARTIFACT)) == 2
        assert (await plane.record(task.id)).on_orphan == policy


async def test_count_streams_each_number_once(plane: Plane) -> None:
    task = await plane.run("count 12 5")
    numbers = [str(number) for number in range(1, 13)]
    assert text(task.status.message).split() == numbers
    assert await _streamed(plane, task.id) == text(task.status.message)


async def test_code_is_markdown_with_code_lists_and_a_table(plane: Plane) -> None:
    task = await plane.run("code")
    said = text(task.status.message)
    assert await _streamed(plane, task.id) == said
    assert {"```python", "```json", "|---|---|---:|", "1. A list with numbers"} <= set(said.splitlines())


@pytest.mark.parametrize("size", [0, 1, 300, 3_000])
async def test_huge_sends_a_text_of_the_given_size(plane: Plane, size: int) -> None:
    task = await plane.run(f"huge {size}")
    assert len(text(task.status.message)) == size * 1024
    assert await _streamed(plane, task.id) == text(task.status.message)


async def test_rtl_answers_in_scripts_that_run_from_right_to_left(plane: Plane) -> None:
    said = text((await plane.run("rtl")).status.message)
    assert {unicodedata.bidirectional(letter) for letter in said} >= {"R", "AL", "L"}


async def test_versions_makes_an_artifact_in_three_chunks_and_then_another_version(plane: Plane) -> None:
    """M6: a chunk that does not append replaces the artifact."""
    task = await plane.run("versions <b>Plan</b>")
    events = [event.event.artifact_update for event in await plane.events(task.id, ARTIFACT)]
    assert [(event.append, event.last_chunk) for event in events] == [
        (False, False),
        (True, False),
        (True, True),
        (False, True),
    ]
    (artifact,) = task.artifacts
    assert artifact.name == "<b>Plan</b>"
    assert artifact.parts[0].text.startswith("# Final")


async def test_tools_calls_a_tool_the_given_number_of_times(plane: Plane) -> None:
    task = await plane.run("tools 4")
    calls = [MessageToDict(message.parts[0].data) for message in task.history[1:] if message.parts[0].HasField("data")]
    assert [call["id"] for call in calls] == [f"call-{number}" for number in (1, 1, 2, 2, 3, 3, 4, 4)]
    assert [call["response"]["answer"] for call in calls if "response" in call] == [1, 4, 9, 16]


async def test_progress_lines_are_shown_and_stay_out_of_the_conversation(plane: Plane) -> None:
    """T7: as status texts."""
    task = await plane.run("progress 2")
    said = [event.event.status_update.status.message for event in await plane.events(task.id, STATUS)]
    lines = [text(message) for message in said if message.metadata.fields["kind"].string_value == "status-message"]
    assert lines == ["Step 1 of 2", "Step 2 of 2"]
    assert await plane.conversation(task.context_id) == ["progress 2", "All 2 steps are done."]


async def test_rate_makes_the_given_number_of_events(plane: Plane) -> None:
    task = await plane.run("rate 400 1")
    assert len(await plane.events(task.id, ARTIFACT)) == 400
    assert text(task.status.message) == "400 events."


async def test_artifact_makes_a_text_a_data_and_a_file(plane: Plane) -> None:
    task = await plane.run("artifact")
    kinds = {artifact.artifact_id: artifact.parts[0].WhichOneof("content") for artifact in task.artifacts}
    assert kinds == {"text": "text", "data": "data", "file": "raw"}
    assert task.artifacts[2].parts[0].filename == "answer.csv"
    assert MessageToDict(task.artifacts[1].parts[0].data) == {"answer": 42.0, "unit": "none"}


async def test_a_tool_call_and_its_result_stand_between_two_texts(plane: Plane) -> None:
    """T1: data parts marked function_call and function_response."""
    task = await plane.run("tool what is it")
    kinds: list[str] = []
    for message in (*task.history[1:], task.status.message):
        part = message.parts[0]
        marks = [part.metadata.fields[key].string_value for key in ("kagent_type", "adk_type") if part.HasField("data")]
        assert len(set(marks)) <= 1
        kinds.append(marks[0] if marks else part.text)
    assert kinds == ["Looking that up.", "function_call", "function_response", "The answer is 42."]
    call = MessageToDict(task.history[2].parts[0].data)
    assert call == {"id": "call-1", "name": "lookup", "args": {"question": "what is it"}}


@pytest.mark.parametrize(
    ("command", "state"), [("ask", a2a.TASK_STATE_INPUT_REQUIRED), ("auth", a2a.TASK_STATE_AUTH_REQUIRED)]
)
async def test_a_question_waits_for_its_answer(plane: Plane, command: str, state: int) -> None:
    """I1: the answer continues the same task."""
    asked = await plane.run(command)
    assert asked.status.state == state
    assert text(asked.status.message)
    reference = await plane.submit("Ann", task_id=asked.id)
    assert reference.task.task_id == asked.id and reference.task.context_id == asked.context_id
    assert not reference.task.cursor
    task = await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
    assert text(task.status.message) == 'You said: "Ann"'
    assert [text(message) for message in task.history] == [command, text(asked.status.message), "Ann"]
    assert await plane.conversation(asked.context_id) == [
        command,
        text(asked.status.message),
        "Ann",
        'You said: "Ann"',
    ]


async def test_a_credential_is_requested_until_it_is_right_and_is_in_no_event(plane: Plane) -> None:
    """I1: in the metadata of the request, which only the agent gets."""
    asked = await plane.run("auth")
    for credential, state in (("a guess", a2a.TASK_STATE_AUTH_REQUIRED), (PASSWORD, a2a.TASK_STATE_COMPLETED)):
        message = said("Here it is", task_id=asked.id)
        request = a2a.SendMessageRequest(message=message)
        request.metadata.update({CREDENTIAL: credential})
        await plane.executor().Submit(pb.SubmitRequest(request=request))
        task = await plane.reaches(asked.id, state)
    assert text(task.status.message) == "You are signed in."
    for event in await plane.events(asked.id):
        assert not holds(event, "a guess")


async def test_fail_fails_with_a_readable_reason(plane: Plane) -> None:
    """P9: as the message of its status."""
    task = await plane.run("fail the roof is leaking")
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert text(task.status.message) == "the roof is leaking"
    (event,) = [
        e for e in await plane.events(task.id, STATUS) if e.event.status_update.status.state == task.status.state
    ]
    assert event.event.status_update.metadata.fields["reason"].string_value == "AGENT_ERROR"


async def test_reject_is_rejected(plane: Plane) -> None:
    task = await plane.run("reject not today")
    assert task.status.state == a2a.TASK_STATE_REJECTED
    assert text(task.status.message) == "not today"


async def test_a_direct_message_makes_no_task(plane: Plane) -> None:
    """P2: a direct answer is a Message; no task exists."""
    response = await plane.submit("message good morning")
    assert text(response.message) == "good morning"
    assert response.message.role == a2a.ROLE_AGENT and response.message.context_id
    context_id = response.message.context_id
    listed = await plane.stores.tasks().ListTasks(tasks.ListTasksRequest(context_id=context_id))
    assert not listed.records
    assert await plane.conversation(context_id) == ["message good morning", "good morning"]


async def test_flood_makes_every_message_an_event(plane: Plane) -> None:
    task = await plane.run("flood 300")
    assert len(task.history) == 301
    conversation = await plane.conversation(task.context_id)
    assert conversation == ["flood 300"] + [f"message {n} of 300" for n in range(1, 301)]


async def test_block_completes_if_it_is_allowed(stores: Stores) -> None:
    async with open_plane(stores, ("demo", Demo(allow_crash=True))) as plane:
        assert text((await plane.run("block 1")).status.message) == "Blocked for 1 s."


@pytest.mark.parametrize("command", ["crash", "block 1"])
async def test_a_command_that_harms_the_process_is_refused_unless_allowed(plane: Plane, command: str) -> None:
    """P9: a user must not be able to stop an executor."""
    task = await plane.run(command)
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert "allow_crash" in text(task.status.message)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        ("huge 3001", "huge: N must be a whole number from 0 to 3,000, not 3001."),
        ("huge -1", "huge: N must be a whole number from 0 to 3,000, not -1."),
        ("huge much", "huge: N must be a whole number from 0 to 3,000, not much."),
        (f"huge {'9' * 5000}", f"huge: N must be a whole number from 0 to 3,000, not {'9' * 20}…."),
        ("count 10001", "count: N must be a whole number from 0 to 10,000, not 10001."),
        ("count 1 10001", "count: MS must be a whole number from 0 to 10,000, not 10001."),
        ("chunks 100001", "chunks: N must be a whole number from 0 to 100,000, not 100001."),
        ("chunks 1 1048577", "chunks: SIZE must be a whole number from 0 to 1,048,576, not 1048577."),
        (
            "chunks 100000 1048576",
            "chunks: N times SIZE must be at most 134,217,728 bytes, not 104,857,600,000; give smaller numbers.",
        ),
        ("slow 10001", "slow: N must be a whole number from 0 to 10,000, not 10001."),
        ("rerun 10001", "rerun: N must be a whole number from 0 to 10,000, not 10001."),
        ("rate 0", "rate: N must be a whole number from 1 to 5,000, not 0."),
        ("rate 1 601", "rate: S must be a whole number from 0 to 600, not 601."),
        ("rate 5000 600", "rate: N times S must be at most 100,000 chunks, not 3,000,000; give smaller numbers."),
        ("tools 1001", "tools: N must be a whole number from 0 to 1,000, not 1001."),
        ("progress 1001", "progress: N must be a whole number from 0 to 1,000, not 1001."),
        ("flood 10001", "flood: N must be a whole number from 0 to 10,000, not 10001."),
    ],
)
async def test_a_number_out_of_range_is_refused_with_the_range(plane: Plane, command: str, refusal: str) -> None:
    """P9: so that no command stops an executor, for example by its memory."""
    task = await plane.run(command)
    assert task.status.state == a2a.TASK_STATE_REJECTED
    assert text(task.status.message) == refusal


async def test_a_number_may_have_leading_zeros(plane: Plane) -> None:
    assert text((await plane.run("tools 000001")).status.message) == text((await plane.run("tools 1")).status.message)


async def test_the_seconds_of_block_have_a_range(stores: Stores) -> None:
    async with open_plane(stores, ("demo", Demo(allow_crash=True))) as plane:
        task = await plane.run("block 601")
        assert text(task.status.message) == "block: N must be a whole number from 0 to 600, not 601."


async def test_the_card_has_skills_for_commands(stores: Stores) -> None:
    demo = Demo()
    assert isinstance(demo, Router) and isinstance(demo, Policied)
    async with open_plane(stores, ("demo", demo)) as plane:
        assert {skill.id for skill in plane.service.agents.named("").agent.card.skills} >= {"echo", "stream", "ask"}


async def _streamed(plane: Plane, task_id: str) -> str:
    said = [e.event.status_update.status.message for e in await plane.events(task_id, STATUS)]
    return "".join(text(message) for message in said if "kagent_adk_partial" in message.metadata.fields)
