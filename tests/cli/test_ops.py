"""`taskplane ops` against a real plane."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import httpx
import pytest
from tests.cli.command import PATIENCE, chat_once, dev, json_of, taskplane

from taskplane.cli.operations_text import overview_text


def test_the_overview_is_a_table_for_people_and_json_for_programs(url: str) -> None:
    """V1: the numbers of tasks by state, without an empty table."""
    chat_once(url, "fail")
    chat_once(url, "ask Why?")
    found = json_of(url, "ops")
    assert {each["state"] for each in found["tasks"]} >= {"failed", "working"}
    text = taskplane("ops", "--url", url)
    assert (text.returncode, text.stderr) == (0, "")
    lines = text.stdout.splitlines()
    assert (lines[:2], found["concerns"]) == (["Nothing needs attention.", ""], [])
    assert (lines[2], lines[3].split()) == ("TASKS", ["AGENT", "STATE", "COUNT"])
    assert any(line.split()[:2] == ["demo", "failed"] for line in lines)
    assert any(line.split()[:2] == ["demo", "paused"] for line in lines)
    assert "EXECUTORS" in lines and "QUEUE" not in lines
    assert any(line.startswith("  ended ") and line.endswith("of them failed") for line in lines)


def test_concerns_are_printed_first(tmp_path: Path) -> None:
    """V4: each with its suggestion and its code, in the form of errors; as JSON they are the answer of the server."""
    unrenewed = {"TASKS_LEASE_TTL": "1.0", "TASKS_RENEW_EVERY": "0.3", "TASKS_SWEEP_EVERY": "600"}
    settings = {**unrenewed, "EXECUTOR_RENEW_EVERY": "600"}
    with dev(cwd=tmp_path, env={f"TASKPLANE_{name}": value for name, value in settings.items()}) as plane:
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "slow 600"}]}
        params = {"message": message, "configuration": {"returnImmediately": True}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        assert "result" in httpx.post(plane.url, json=body, headers={"A2A-Version": "1.0"}).json()
        deadline = monotonic() + PATIENCE
        while not (concerns := json_of(plane.url, "ops")["concerns"]):
            assert monotonic() < deadline
        (silent,) = concerns
        lines = taskplane("ops", "--url", plane.url).stdout.splitlines()
        assert lines[0] == "NEEDS ATTENTION"
        assert re.fullmatch(rf"Executor {silent['executor']} was last heard from .+ ago and holds 1 task\.", lines[1])
        assert silent["code"] == "SILENT"
        assert lines[2:6] == [f"  {silent['suggestion']}", "  SILENT", "", "TASKS"]


def test_concerns_cannot_control_the_terminal() -> None:
    """V4: they contain names of agents and executors. Each concern begins on a new line."""
    recent = {"minutes": 60, "begun": 0, "ended": 0, "failed": 0, "durationSeconds": None, "queuedSeconds": None}
    nothing = {"count": 0, "oldestSeconds": None}
    concerns = [{"code": code, "message": f"1 task of\x1b[2J\n{code}.", "suggestion": "Look."} for code in ("A", "B")]
    tables: dict[str, list[object]] = {"tasks": [], "queue": [], "executors": []}
    found = {**tables, "recent": recent, "uncopied": nothing, "abandoned": nothing, "bounded": False}
    lines = overview_text({**found, "concerns": concerns}).splitlines()
    told = ["1 task of[2J A.", "  Look.", "  A", "1 task of[2J B.", "  Look.", "  B"]
    assert lines[:8] == ["NEEDS ATTENTION", *told, ""]


def test_tasks_are_listed_by_state_agent_and_failure(url: str) -> None:
    """V1: the newest change first, with the reason of each failure."""
    failed, paused = chat_once(url, "fail")["taskId"], chat_once(url, "ask Why?")["taskId"]

    def ids(*filters: str) -> list[str]:
        return [task["taskId"] for task in json_of(url, "ops", "tasks", *filters)]

    assert ids("--failed")[0] == failed == ids("--state", "failed", "--agent", "demo")[0]
    assert ids("--state", "paused", "--owner", "local")[0] == paused
    assert ids("--limit", "1") == [paused]
    assert ids("--agent", "nobody") == []
    lines = taskplane("ops", "tasks", "--failed", "--url", url).stdout.splitlines()
    assert lines[0].split() == ["TASK", "STATE", "CHANGED", "OWNER", "AGENT", "EXECUTOR", "ASKED", "ERROR"]
    assert lines[1].split()[:2] == [failed, "failed"]
    assert " ".join(lines[1].split()).endswith("demo - fail The demo agent was told to fail.")
    none = taskplane("ops", "tasks", "--executor", "nobody", "--url", url)
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "No tasks.\n")
    rejected = chat_once(url, "reject")["taskId"]
    assert ids("--state", "rejected")[0] == rejected == ids("--failed")[0] != ids("--state", "failed")[0]
    lines = taskplane("ops", "tasks", "--url", url).stdout.splitlines()
    assert lines[1].split()[:2] == [rejected, "rejected"]
    for word in {line.split()[1] for line in lines[1:]} | {"submitted", "working", "paused", "completed", "canceled"}:
        assert taskplane("ops", "tasks", "--state", word, "--url", url).returncode == 0, word
    assert taskplane("ops", "tasks", "--state", "done", "--url", url).returncode == 2


def test_a_task_is_shown_with_its_log_canceled_and_deleted(url: str) -> None:
    """V1, V2: attempts, fences and actors; the beginning of an id is enough."""
    task = chat_once(url, "ask Why?")["taskId"]
    canceled = taskplane("ops", "cancel", task[:28], "--url", url)
    assert (canceled.returncode, "state     canceled" in canceled.stdout) == (0, True)
    shown = taskplane("ops", "show", task[:28], "--url", url).stdout.splitlines()
    assert shown[0] == f"task      {task}"
    assert "asked     ask Why?" in shown
    head = next(at for at, line in enumerate(shown) if line.split()[:1] == ["#"])
    assert shown[head].split() == ["#", "TIME", "ATTEMPT", "FENCE", "ACTOR", "KIND", "TEXT"]
    last = shown[-1].split()
    assert (last[0], last[4:]) == (str(len(shown) - head - 1), ["local", "status", "canceled"])
    again = taskplane("ops", "cancel", task, "--url", url, "-o", "json")
    assert (again.returncode, json.loads(again.stderr)["error"]["code"]) == (1, "TERMINAL")
    refused = taskplane("ops", "delete", task, "--url", url, "-o", "json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (2, "NOT_CONFIRMED")
    assert json_of(url, "ops", "delete", task, "--yes") == {"id": task, "deleted": True}
    assert taskplane("ops", "show", task, "--url", url).returncode == 5


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A plane with the keys of a user and of an operator."""
    folder = tmp_path_factory.mktemp("keyed")
    digest = hashlib.sha256(b"secret").hexdigest()
    keys = folder / "keys.toml"
    keys.write_text(
        f'[[keys]]\nid = "ann"\nsha256 = "{digest}"\nowner = "ann"\n'
        f'[[keys]]\nid = "olga"\nsha256 = "{digest}"\nowner = "olga"\nscopes = ["write", "operate"]\n'
    )
    with dev(cwd=folder, env={"TASKPLANE_GATEWAY_API_KEYS": str(keys)}) as plane:
        yield plane.url


def test_a_command_without_a_key_names_the_variable_to_set(keyed: str) -> None:
    """With the key in that variable, a chat works."""
    commands = (["task", "list"], ["session", "list"], ["chat", "-m", "hello"], ["tail", "x" * 32], ["ops"])
    for command in commands:
        refused = taskplane(*command, "--url", keyed)
        assert (refused.returncode, "export TASKPLANE_TOKEN=" in refused.stderr) == (4, True), refused.stderr
    known = taskplane("chat", "-m", "hello", "--url", keyed, env={"TASKPLANE_TOKEN": "ann.secret"})
    assert (known.returncode, known.stdout) == (0, "hello\n")


def test_an_operator_needs_the_scope_and_is_named_in_the_log(keyed: str) -> None:
    """V2, V3: the error for a user names the missing scope, with exit code 4. The event of a cancel names the
    operator."""
    url = keyed
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "ask Why?"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"A2A-Version": "1.0", "X-API-Key": "ann.secret"}
    task = httpx.post(url, json=body, headers=headers).json()["result"]["task"]["id"]
    keys = {"ANN": "ann.secret", "OLGA": "olga.secret"}
    refused = taskplane("ops", "--url", url, "--token-env", "ANN", env=keys)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr.splitlines()[1:] == ['  use an API key with the scope "operate"', "  OPERATORS_ONLY"]
    as_olga = ("--url", url, "--token-env", "OLGA", "-o", "json")
    canceled = taskplane("ops", "cancel", task, *as_olga, env=keys)
    assert (canceled.returncode, json.loads(canceled.stdout)["owner"]) == (0, "ann")
    shown = json.loads(taskplane("ops", "show", task, *as_olga, env=keys).stdout)
    assert [event["actor"] for event in shown["events"]][-1] == "olga"
