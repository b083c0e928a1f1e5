"""`taskplane session rewind`, `undo` and `fork` against a real plane."""

import json
from typing import Any

import httpx
import pytest
from tests.cli.command import chat_once, json_of, session_of, taskplane

INVOCATIONS = ["kagent_invocation_id", "adk_invocation_id"]


def history(url: str, session: str) -> list[str]:
    """The messages of the tasks of a session, each once."""
    seen: dict[str, str] = {}
    for task in json_of(url, "session", "show", session)["tasks"]:
        for message in task.get("history", []):
            seen.setdefault(message["messageId"], message["parts"][0]["text"])
    return list(seen.values())


def invocations(url: str, session: str) -> list[str]:
    """The invocations of the turns, as `session show` prints them."""
    lines = taskplane("session", "show", session, "--url", url).stdout.splitlines()
    return [line.split()[2] for line in lines if line.startswith("turn ")]


def test_r3_a_rewind_by_number_cuts_that_turn_and_later_ones_and_prints_its_text(url: str) -> None:
    """R5, R11: afterwards the messages before the turn are shown."""
    session = session_of(url, "one", "two", "three")
    done = taskplane("session", "rewind", session, "--before-message", "2", "--url", url)
    assert (done.returncode, done.stdout) == (0, "two\n")
    assert f"taskplane session undo {session}" in done.stderr
    assert history(url, session) == ["one", "one"]
    assert [info["state"] for info in json_of(url, "session", "show", session)["taskInfos"]] == ["completed"]


def test_r3_a_rewind_by_invocation_works_the_same_and_prints_json_for_programs(url: str) -> None:
    session = session_of(url, "one", "two")
    second = invocations(url, session)[1]
    done = json_of(url, "session", "rewind", session, "--before", second)
    assert done["cut"] == {"number": 2, "invocationId": second, "text": "two"}
    assert [message["parts"][0]["text"] for message in done["messages"]] == ["one", "one"]
    assert done["session"]["id"] == session


def test_t7_a_rewind_before_the_first_turn_leaves_nothing(url: str) -> None:
    session = session_of(url, "one")
    assert json_of(url, "session", "rewind", session, "--before-message", "1")["messages"] == []
    assert history(url, session) == []


@pytest.mark.parametrize("which", [["--before", "no-such-turn"], ["--before-message", "3"]])
def test_r9_a_turn_that_is_not_in_effect_exits_5_and_changes_nothing(url: str, which: list[str]) -> None:
    session = session_of(url, "one", "two", "three")
    json_of(url, "session", "rewind", session, "--before-message", "3")
    done = taskplane("session", "rewind", session, *which, "--url", url, "-o", "json")
    assert (done.returncode, json.loads(done.stderr)["error"]["code"]) == (5, "INVOCATION_NOT_FOUND")
    assert history(url, session) == ["one", "one", "two", "two"]


@pytest.mark.parametrize("which", [[], ["--before", "x", "--before-message", "1"]])
def test_a_rewind_must_name_one_turn_in_one_way(url: str, which: list[str]) -> None:
    done = taskplane("session", "rewind", "any", *which, "--url", url)
    assert done.returncode == 2
    assert "--before-message" in done.stderr


def test_r8_an_undo_restores_the_cut_turns_until_the_next_message(url: str) -> None:
    session = session_of(url, "one", "two")
    json_of(url, "session", "rewind", session, "--before-message", "2")
    done = taskplane("session", "undo", session, "--url", url)
    assert (done.returncode, done.stdout) == (0, f"session  {session}  one\n")
    assert "4 messages" in done.stderr
    assert history(url, session) == ["one", "one", "two", "two"]
    again = taskplane("session", "undo", session, "--url", url, "-o", "json")
    assert (again.returncode, json.loads(again.stderr)["error"]["code"]) == (1, "NOTHING_TO_UNDO")
    json_of(url, "session", "rewind", session, "--before-message", "2")
    chat_once(url, "two anew", session)
    late = taskplane("session", "undo", session, "--url", url, "-o", "json")
    assert (late.returncode, json.loads(late.stderr)["error"]["code"]) == (1, "TOO_LATE_TO_UNDO")


def test_r5_after_a_rewind_and_further_turns_each_message_is_shown_once(url: str) -> None:
    """I3: the next message refers to the last task that is in effect."""
    session = session_of(url, "one", "two", "message three")
    kept = json_of(url, "session", "show", session)["taskInfos"][0]["taskId"]
    json_of(url, "session", "rewind", session, "--before-message", "2")
    anew = chat_once(url, "two anew", session)
    assert history(url, session) == ["one", "one", "two anew", "two anew"]
    task: dict[str, Any] = json_of(url, "task", "get", anew["taskId"])
    assert task["history"][0]["referenceTaskIds"] == [kept]


def test_i6_after_a_rewind_past_a_question_the_next_message_does_not_answer_it(url: str) -> None:
    session = session_of(url, "one", "ask Sure?")
    before = {task["id"] for task in json_of(url, "session", "show", session)["tasks"]}
    json_of(url, "session", "rewind", session, "--before-message", "2")
    third = chat_once(url, "three", session)
    assert third["text"] == "three"
    assert len(before) == 2 and third["taskId"] not in before


@pytest.mark.parametrize("key", INVOCATIONS)
def test_r10_the_turns_of_documents_are_listed_rewound_and_counted(url: str, key: str) -> None:
    """R5: for a session of a runtime, with one task for each turn, in either spelling."""
    created = httpx.post(f"{url}/api/sessions", json={"agent_ref": "a"}).json()
    session: str = created["data"]["id"]
    turns = [f"{session}-{number}" for number in (1, 2)]
    for turn in turns:
        said_so = {"kind": "message", "parts": [{"kind": "text", "text": turn}], "metadata": {key: turn}}
        history_ = [{**said_so, "messageId": f"{turn}-{role}", "role": role} for role in ("user", "agent")]
        document = {"id": turn, "contextId": session, "status": {"state": "completed"}, "history": history_}
        assert httpx.post(f"{url}/api/tasks", json=document).status_code == 201
    assert invocations(url, session) == turns
    done = taskplane("session", "rewind", session, "--before-message", "2", "--url", url)
    assert (done.returncode, done.stdout) == (0, f"{turns[1]}\n")
    assert "2 messages left" in done.stderr
    assert (invocations(url, session), history(url, session)) == (turns[:1], [turns[0]] * 2)
    assert "4 messages" in taskplane("session", "undo", session, "--url", url).stderr
    assert invocations(url, session) == turns


def test_a_fork_continues_on_its_own_and_leaves_the_old_session_unchanged(url: str) -> None:
    session = session_of(url, "one", "two")
    done = taskplane("session", "fork", session, "--url", url)
    assert done.returncode == 0, done.stderr
    fork = done.stdout.split()[1]
    assert done.stdout == f"session  {fork}  one\n"
    assert history(url, fork) == ["one", "one", "two", "two"]
    chat_once(url, "three", fork)
    assert history(url, session) == ["one", "one", "two", "two"]
    assert len(history(url, fork)) == 6


def test_a_fork_before_a_turn_has_the_messages_before_that_turn_and_the_given_title(url: str) -> None:
    session = session_of(url, "one", "two")
    second = invocations(url, session)[1]
    fork = json_of(url, "session", "fork", session, "--before", second, "--title", "Another try")
    assert fork["name"] == "Another try"
    assert history(url, fork["id"]) == ["one", "one"]
    missing = taskplane("session", "fork", session, "--before", "no-such-turn", "--url", url)
    assert missing.returncode == 5
