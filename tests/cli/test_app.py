"""The command as a whole: help is fast, and mistyped commands get suggestions."""

import json
import subprocess
import sys

import pytest
from tests.cli.command import Dev, environment, taskplane
from tests.support.ports import refusing_port
from typer.testing import CliRunner

from taskplane.cli.app import app
from taskplane.cli.options import Options
from taskplane.cli.task import get_task

HEAVY = {"grpc", "google.protobuf", "sqlalchemy", "alembic", "httpx", "orjson", "rich", "starlette", "uvicorn"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["dev", "--help"], ["init", "--help"], ["chat", "--help"], ["task", "list", "--help"]]
)
def test_help_imports_no_slow_modules(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from taskplane.cli.app import app\n"
        f"try: app({arguments!r}, prog_name='taskplane')\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: taskplane")
    assert HEAVY.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("command", ["dev", "worker"])
def test_help_names_every_kind_of_agent(command: str) -> None:
    """P9, P14: NAME=worker:CARD.json is for `dev` only."""
    shown = " ".join(CliRunner().invoke(app, [command, "--help"]).stdout.split())
    kinds = ["@thread", "@process", "MODULE:ATTRIBUTE", "demo", "llm", "NAME=URL"]
    assert all(kind in shown for kind in kinds)
    assert command == "worker" or "NAME=worker:CARD.json" in shown


@pytest.mark.more
def test_commands_work_in_new_processes(plane: Dev) -> None:
    """A new process has only the imports of its command. The other tests run copies of a process that has imported
    everything."""

    def output(*arguments: str) -> str:
        done = taskplane(*arguments, afresh=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    url = ("--url", plane.url)
    said = json.loads(output("chat", "-m", "hello", "-o", "json", *url))
    assert output("tail", said["taskId"], *url)
    assert said["taskId"] in output("task", "get", said["taskId"], *url)
    assert "hello" in output("session", "show", said["contextId"], *url)
    assert output("session", "export", said["contextId"], *url)
    assert output("gc", "--dry-run", "--grpc", plane.grpc)


def test_a_mistyped_command_or_option_gets_a_suggestion() -> None:
    command = taskplane("tial")
    assert (command.returncode, "Did you mean 'tail'" in command.stderr) == (2, True)
    option = taskplane("tail", "task", "--afetr", "x")
    assert (option.returncode, "--after" in option.stderr) == (2, True)


def test_version_prints_the_versions_that_a_bug_report_needs() -> None:
    lines = taskplane("--version").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "taskplane",
        "python",
        "grpcio",
        "protobuf",
        "sqlalchemy",
        "asyncpg",
        "starlette",
        "uvicorn",
        "sqlite",
    ]


@pytest.mark.parametrize("arguments", [["chat", "-m", "hi"], ["tail", "x"], ["task", "list"], ["session", "list"]])
def test_a_command_without_a_server_exits_3_at_once_with_a_suggestion(arguments: list[str]) -> None:
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}"
        done = taskplane(*arguments, "--url", url)
    assert done.returncode == 3
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == f"✗ No server answers at {url}."
    assert "taskplane dev" in lines[1]
    assert lines[2] == "  UNREACHABLE"


def test_with_json_output_an_error_is_one_json_object() -> None:
    with refusing_port() as port:
        done = taskplane("task", "get", "x", "-o", "json", env={"TASKPLANE_URL": f"http://127.0.0.1:{port}"})
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["retryable"]) == ("UNREACHABLE", True)
    assert error["message"]
    assert error["suggestion"]


def test_an_unset_token_variable_is_refused_before_anything_is_sent() -> None:
    done = taskplane("task", "list", "--token-env", "NO_SUCH_KEY")
    assert done.returncode == 2
    assert "NO_SUCH_KEY" in done.stderr
    assert "export NO_SUCH_KEY=" in done.stderr


@pytest.mark.parametrize("url", ["notaurl", "", "ftp://host", "http://[bad", "http://host:99999"])
def test_a_malformed_url_is_wrong_usage(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert get_task(Options(url), "x") == 2
    assert "BAD_URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["chat", "-m", ""],
        ["chat", "--session", ""],
        ["user", "erase", "", "-y"],
        ["session", "show", ""],
        ["session", "delete", "", "-y"],
        ["session", "fork", "x", "--before", ""],
        ["task", "list", "--session", ""],
        ["tail", ""],
    ],
)
def test_an_empty_argument_is_refused_and_not_taken_as_missing(arguments: list[str]) -> None:
    """The likely cause is an unset variable of a script."""
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "must not be empty" in done.output) == (2, True)
