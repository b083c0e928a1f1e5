"""`taskplane task` against a real plane."""

import json
from uuid import uuid4

import httpx
from tests.cli.command import chat_once, taskplane


def test_tasks_are_listed_by_session_and_state_and_limited(url: str) -> None:
    done = chat_once(url, "hello")
    ids = {task["id"] for task in json.loads(taskplane("task", "list", "--url", url, "-o", "json").stdout)}
    assert done["taskId"] in ids
    of_session = taskplane("task", "list", "--session", done["contextId"], "--url", url, "-o", "ndjson").stdout
    assert [json.loads(line)["id"] for line in of_session.splitlines()] == [done["taskId"]]
    working = taskplane("task", "list", "--session", done["contextId"], "--state", "working", "--url", url)
    assert (working.stdout, working.stderr) == ("", "No tasks.\n")
    one = json.loads(taskplane("task", "list", "--limit", "1", "--url", url, "-o", "json").stdout)
    assert len(one) == 1


def test_a_list_for_people_has_a_head_and_a_row_for_the_task(url: str) -> None:
    done = chat_once(url, "hello columns")
    lines = taskplane("task", "list", "--session", done["contextId"], "--url", url).stdout.splitlines()
    assert lines[0].split() == ["TASK", "STATE", "CHANGED", "SESSION", "LAST"]
    assert lines[1].split()[:2] == [done["taskId"], "completed"]
    assert lines[1].endswith("hello columns")


def test_a_shown_task_has_its_messages_and_artifacts(url: str) -> None:
    done = chat_once(url, "artifact")
    text = taskplane("task", "get", done["taskId"], "--url", url).stdout
    assert f"task     {done['taskId']}" in text
    assert "state    completed" in text
    assert "user     artifact" in text
    assert "artifact Words: A few words." in text


def test_cancelling_an_ended_task_is_refused_and_a_paused_one_is_canceled(url: str) -> None:
    ended = taskplane("task", "cancel", chat_once(url, "hello")["taskId"], "--url", url, "-o", "json")
    assert ended.returncode == 1
    assert json.loads(ended.stderr)["error"]["code"] == "TASK_NOT_CANCELABLE"
    paused = taskplane("task", "cancel", chat_once(url, "ask Why?")["taskId"], "--url", url, "-o", "json")
    assert json.loads(paused.stdout)["status"]["state"] == "TASK_STATE_CANCELED"


def test_an_unknown_task_exits_5(url: str) -> None:
    assert taskplane("task", "get", "nothing", "--url", url).returncode == 5


def test_a_unique_prefix_of_an_id_is_enough(url: str) -> None:
    """For tasks and sessions alike. The exact id counts first, so ids made by clients may be prefixes of others."""
    one, mine = chat_once(url, "hello"), uuid4().hex[:8]
    task, session = one["taskId"], one["contextId"]
    assert json.loads(taskplane("task", "get", task[:28], "--url", url, "-o", "json").stdout)["id"] == task
    for ending in ("", "-1", "-2"):
        document = {"id": mine + ending, "contextId": session, "status": {"state": "completed"}}
        assert httpx.post(f"{url}/api/tasks", json=document).status_code == 201
    exact = taskplane("task", "get", mine, "--url", url, "-o", "json")
    assert json.loads(exact.stdout)["id"] == mine
    refused = taskplane("task", "get", f"{mine}-", "--url", url, "-o", "json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (1, "AMBIGUOUS")
    shown = taskplane("session", "show", f"{session[:28]}…", "--url", url, "-o", "json")
    assert json.loads(shown.stdout)["session"]["id"] == session
    assert chat_once(url, "more", session=session[:28])["contextId"] == session
    tail = taskplane("tail", task[:28], "--url", url)
    assert (tail.returncode, "completed" in tail.stdout) == (0, True)
    assert taskplane("session", "show", "nothing", "--url", url).returncode == 5
