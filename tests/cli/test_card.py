"""`taskplane card` against a real plane."""

import json
from pathlib import Path

from tests.cli.command import dev, taskplane


def test_a_card_without_warnings_passes(url: str) -> None:
    for agent in ((), ("demo",)):
        done = taskplane("card", "check", *agent, "--url", url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "No warnings.\n")
    # The card as it is served, in the form of both versions.
    served = taskplane("card", "check", url)
    assert (served.returncode, served.stdout, served.stderr) == (0, "", "No warnings.\n")
    none = taskplane("card", "check", "none", "--url", url)
    assert (none.returncode, none.stderr.splitlines()[-1].strip()) == (5, "AGENT_NOT_FOUND")


def test_warnings_about_a_card_are_listed_and_set_the_exit_code(tmp_path: Path) -> None:
    """Without a name, the command describes the default agent."""
    with dev(cwd=tmp_path, env={"TASKPLANE_GATEWAY_PUBLIC_URL": "http://plane.example"}) as plane:
        url = plane.said.split("http://127.0.0.1:")[1].split("/")[0]
        arguments = ("card", "check", "--url", f"http://127.0.0.1:{url}")
        done = taskplane(*arguments)
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["OTHER_HOST", "PLAIN_HTTP"], done
        assert "http://plane.example/agents/demo/jsonrpc is not encrypted." in done.stdout
        assert done.returncode == 1
        found = json.loads(taskplane(*arguments, "--output", "json").stdout)
        assert [one["code"] for one in found] == ["OTHER_HOST", "PLAIN_HTTP"]


def test_agents_are_listed_with_a_mark_on_the_default_one(url: str) -> None:
    done = taskplane("agent", "list", "--url", url)
    assert done.stdout.split()[:2] == ["demo", "default"]
    assert [one["name"] for one in json.loads(taskplane("agent", "list", "--url", url, "-o", "json").stdout)] == [
        "demo"
    ]
