"""Commands for sessions and tasks of an agent that is not served here. Only sending needs the agent."""

import httpx
from tests.cli.command import json_of, taskplane

GONE = ("--agent", "kagent/gone")


def session_elsewhere(url: str, context: str) -> list[str]:
    """A session of an agent elsewhere with two turns. Returns the ids of its tasks."""
    for name in ("one", "two"):
        history = [
            {
                "messageId": f"{context}-{name}-{role}",
                "role": role,
                "parts": [{"text": name}],
                "metadata": {"kagent_invocation_id": f"{context}-{name}"},
            }
            for role in ("user", "agent")
        ]
        task = {"id": f"{context}-{name}", "contextId": context, "status": {"state": "completed"}, "history": history}
        reply = httpx.post(f"{url}/api/tasks", json=task, headers={"X-Agent-Name": GONE[1]}, timeout=20.0)
        assert reply.status_code == 201, reply.text
    return [f"{context}-one", f"{context}-two"]


def test_r11_a_session_of_a_gone_agent_is_opened_rewound_and_undone_and_a_send_names_the_agent(url: str) -> None:
    """R2, R8: loaded messages stay, and the text of the refused message is given back."""
    session_elsewhere(url, "elsewhere")
    options = ("--url", url, "--session", "elsewhere", *GONE)
    lines = ["/rewind 2", "/undo", "/tasks"]
    done = taskplane("chat", *options, stdin="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0, done.stderr
    assert "  your text was: two" in done.stderr.splitlines()
    assert "  undone; 4 messages in effect" in done.stderr.splitlines()
    refused = taskplane("chat", *options, stdin="hello\n")
    assert "there is no agent kagent__NS__gone" in refused.stderr
    assert "  your text was: hello" in refused.stderr.splitlines()
    assert len(json_of(url, "session", "show", "elsewhere")["tasks"]) >= 2


def test_m5_tasks_of_a_gone_agent_are_shown_and_followed_and_a_cancel_does_not_ask_for_the_agent(url: str) -> None:
    """The tasks are documents of a runtime elsewhere, so the cancel itself is refused. Their session is rewound and
    undone."""
    one, two = session_elsewhere(url, "elsewhere-2")
    assert json_of(url, "task", "get", one)["contextId"] == "elsewhere-2"
    assert {task["id"] for task in json_of(url, "task", "list", "--session", "elsewhere-2")} == {one, two}
    followed = taskplane("tail", two, "--url", url)
    assert followed.returncode == 0, followed.stderr
    refused = taskplane("task", "cancel", two, "--url", url)
    assert "no agent" not in refused.stderr and refused.returncode not in (0, 2)
    shown = json_of(url, "session", "rewind", "elsewhere-2", "--before-message", "2")
    assert len(shown["messages"]) == 2
    assert len(json_of(url, "session", "undo", "elsewhere-2")["messages"]) == 4
