"""`taskplane dev`: one command, the whole plane."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.cli.command import PATIENCE, Dev, dev, taskplane
from tests.support.postgres import Cluster

SERVICES = [
    "taskplane.api.tasks.v1.TaskStore",
    "taskplane.api.tasks.v1.TaskOperations",
    "taskplane.api.tasks.v1.TaskQueue",
    "taskplane.api.sessions.v1.SessionHistory",
    "taskplane.api.executor.v1.AgentExecutor",
]


AGENT = """\
from taskplane.agents.agent import AgentCard, Complete, Text


class Greeter:
    card = AgentCard(name="Greeter", description="Greets whoever writes.", version="1")

    async def run(self, turn):
        yield Text(f"Good day, {turn.text}.")
        yield Complete()
"""


def send_without_waiting(url: str, words: str) -> None:
    """Sends a message and does not wait for its task."""
    taken = httpx.post(
        url,
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {
                "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": words}]},
                "configuration": {"returnImmediately": True},
            },
        },
        timeout=PATIENCE,
    )
    assert "result" in taken.json()


def test_dev_prints_its_addresses_and_a_chat_command_that_works(plane: Dev) -> None:
    lines = plane.said.splitlines()
    assert re.match(r"taskplane \S+ \(Python 3\.\d+\)  agent: demo", lines[0]), "the log precedes the addresses"
    assert any(re.fullmatch(r"Data        sqlite:///\S*tasks\.db  sqlite:///\S*sessions\.db", line) for line in lines)
    told = [json.loads(line)["message"] if line.startswith("{") else line for line in lines]
    assert sorted(told) == sorted(set(told))
    (suggested,) = [line.removeprefix("Try         taskplane ") for line in lines if line.startswith("Try ")]
    match = re.fullmatch(r'chat --url (\S+) -m "hello"  or, in the page: count 30, then reload it', suggested)
    assert match is not None
    assert taskplane("chat", "--url", match.group(1), "-m", "hello").stdout == "hello\n"
    assert re.fullmatch(r"ready in \d+\.\d s - press Ctrl-C to stop", lines[-1])


async def test_every_internal_service_is_served_and_healthy_on_one_grpc_port(plane: Dev) -> None:
    async with grpc.aio.insecure_channel(plane.grpc) as channel:
        stub = cast("Any", health_pb2_grpc.HealthStub(channel))
        for service in SERVICES:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, service


def test_the_gateway_is_ready_and_serves_the_demo_agent_as_default_and_by_name(url: str) -> None:
    assert httpx.get(f"{url}/readyz").json()["ready"] is True
    default = httpx.get(f"{url}/.well-known/agent-card.json").json()
    demo = httpx.get(f"{url}/agents/demo/.well-known/agent-card.json").json()
    assert default["name"] == demo["name"]


def test_a_given_agent_is_the_default_one_and_the_demo_agent_keeps_its_url(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(
        textwrap.dedent(
            """
            from taskplane.api.a2a.v1.a2a_pb2 import AgentCard
            from taskplane.agents.agent import Complete

            class Greeter:
                card = AgentCard(name="Greeter", description="Greets.", version="1")

                async def run(self, turn):
                    yield Complete(f"Good day, {turn.text}.")
            """
        )
    )
    with dev("--agent", "greeting:Greeter", cwd=tmp_path) as plane:
        assert taskplane("chat", "--url", plane.url, "-m", "Ada").stdout == "Good day, Ada.\n"
        assert taskplane("chat", "--url", plane.url, "--agent", "demo", "-m", "Ada").stdout == "Ada\n"


def test_an_agent_that_cannot_be_loaded_leaves_no_folder_behind(tmp_path: Path) -> None:
    done = taskplane("dev", "--port", "0", "--grpc-port", "0", "--agent", "nowhere:Agent", cwd=tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


BLOCKING = """
import os, pathlib, time
from taskplane.agents.agent import AgentCard, Complete, Say

class Blocking:
    card = AgentCard(name="Blocking", version="1")

    async def run(self, turn):
        print("blocking in", os.getpid())
        while not pathlib.Path(turn.text).exists():
            time.sleep(0.005)
        yield Complete("well")
"""


def test_p9_an_agent_in_a_process_survives_ctrl_c_but_not_the_end_of_its_plane(tmp_path: Path) -> None:
    """C14: a terminal sends Ctrl-C to both, and only the plane obeys. The output of the agent is shown there."""
    (tmp_path / "blocking.py").write_text(BLOCKING)
    for number, code in ((signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)):
        go = tmp_path / number.name
        with dev("--agent", "blocking:Blocking@process", "--data", number.name + "-data", cwd=tmp_path) as plane:
            assert taskplane("chat", "--url", plane.url, "--agent", "demo", "-m", "hello").stdout == "hello\n"
            send_without_waiting(plane.url, str(go))
            process = next(int(line.split()[2]) for line in plane.output if line.startswith("blocking in"))
            assert taskplane("chat", "--url", plane.url, "--agent", "demo", "-m", "hello").stdout == "hello\n"
            for each in (process, plane.process.pid) if number is signal.SIGINT else (plane.process.pid,):
                os.kill(each, number)
            if number is signal.SIGINT:
                assert any("waiting for 1 running task" in line for line in plane.output)
                go.touch()
            # The output also ends when the agent's process ends, because that process holds it too.
            ended, rest = plane.end()
            assert ended == code and "Traceback" not in rest, rest


EXITING = """
import asyncio, sys
from taskplane.agents.agent import AgentCard, Complete

async def leave():
    await asyncio.sleep(0)
    sys.exit(9)

def interrupt():
    raise KeyboardInterrupt

class Exiting:
    card = AgentCard(name="Exiting", version="1")

    async def route(self, turn):
        if turn.text == "route":
            await asyncio.ensure_future(leave())

    async def run(self, turn):
        loop = asyncio.get_running_loop()
        match turn.text:
            case "awaited":
                await asyncio.ensure_future(leave())
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(leave())
            case "forgotten":
                await asyncio.wait([asyncio.ensure_future(leave())])
            case "callback":
                loop.call_soon(sys.exit, 9)
            case "interrupt":
                loop.call_soon(interrupt)
            case "stop":
                loop.stop()
        await asyncio.sleep(0)
        yield Complete("well")
"""


def test_p9_an_agent_that_exits_fails_only_its_own_task(tmp_path: Path) -> None:
    """The task fails if it awaits the exit, and completes if the exit is in another task or a callback."""
    (tmp_path / "exiting.py").write_text(EXITING)
    with dev("--agent", "exiting:Exiting", cwd=tmp_path) as plane:
        for words in ("awaited", "group", "route"):
            done = taskplane("chat", "--url", plane.url, "-m", words)
            assert done.returncode != 0 and "The agent failed unexpectedly" in done.stdout + done.stderr, words
        for words in ("forgotten", "callback", "interrupt", "stop"):
            assert taskplane("chat", "--url", plane.url, "-m", words).stdout == "well\n", words
        plane.process.send_signal(signal.SIGTERM)
        ended, rest = plane.end()
        assert ended == 0 and "tried to end it" in rest


def test_an_agent_that_cannot_be_loaded_is_named_in_the_error(tmp_path: Path) -> None:
    done = taskplane("dev", "--port", "0", "--grpc-port", "0", "--agent", "nowhere:agent", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_conversation_survives_a_restart(tmp_path: Path) -> None:
    """C2: an acknowledged write is on disk."""
    with dev("--data", "data", cwd=tmp_path) as plane:
        said = json.loads(taskplane("chat", "--url", plane.url, "-m", "remember", "-o", "json").stdout)
        plane.signal(signal.SIGKILL)
        plane.end()
    assert {path.name for path in (tmp_path / "data").glob("*.db")} == {"tasks.db", "sessions.db"}
    with dev("--data", "data", cwd=tmp_path) as plane:
        shown = taskplane("session", "show", said["contextId"], "--url", plane.url).stdout
        assert said["taskId"] in shown
        assert "remember" in shown


def test_dev_runs_on_one_postgresql_database(tmp_path: Path, cluster: Cluster) -> None:
    database = cluster.create()
    with dev("--database-url", cluster.url(database), cwd=tmp_path) as plane:
        assert taskplane("chat", "--url", plane.url, "-m", "hello").stdout == "hello\n"
        assert not (tmp_path / ".taskplane").exists()
        plane.signal(signal.SIGTERM)
        assert plane.end()[0] == 0
    cluster.drop(database)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_c14_one_signal_drains_and_exits_0(tmp_path: Path, number: int) -> None:
    with dev(cwd=tmp_path, afresh=True) as plane:
        plane.signal(number)
        code, rest = plane.end()
    assert code == 0, rest
    assert "Traceback" not in rest


def test_c14_a_drain_lets_a_running_task_finish(tmp_path: Path) -> None:
    with (
        dev("--data", "data", cwd=tmp_path, afresh=True) as plane,
        httpx.stream(
            "POST",
            plane.url,
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendStreamingMessage",
                "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "slow 8"}]}},
            },
            timeout=PATIENCE,
        ) as stream,
    ):
        events: list[str] = []
        for line in stream.iter_lines():
            if line.startswith("data:"):
                events.append(line)
                if len(events) == 3:
                    plane.signal(signal.SIGTERM)
        assert "TASK_STATE_COMPLETED" in events[-1]
        assert plane.end()[0] == 0


def test_c14_a_second_ctrl_c_ends_the_plane_at_once(tmp_path: Path) -> None:
    with dev("--data", "data", cwd=tmp_path, afresh=True) as plane:
        send_without_waiting(plane.url, "slow 4000")
        plane.signal(signal.SIGINT)
        for line in plane.output:
            if "Ctrl-C again" in line:
                break
        plane.signal(signal.SIGINT)
        assert plane.end()[0] == 130


@contextmanager
def holding(ports: int) -> Generator[tuple[int, list[int]]]:
    """The id of another process, and the ports on which it listens."""
    program = (
        "import socket,sys; held=[socket.create_server(('127.0.0.1',0)) for _ in range(int(sys.argv[1]))];"
        "print(*[s.getsockname()[1] for s in held],flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ports)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        yield holder.pid, [int(port) for port in holder.stdout.readline().split()]
        holder.communicate("\n")


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
def test_the_error_for_a_port_in_use_names_the_process_and_another_port(tmp_path: Path, flag: str) -> None:
    other = "--grpc-port" if flag == "--port" else "--port"
    with holding(1) as (pid, [port]):
        done = taskplane("dev", flag, str(port), other, "0", cwd=tmp_path)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert re.fullmatch(rf'✗ Port {port} is in use by ".*python.*" \(pid {pid}\)\.', lines[0])
    said = re.fullmatch(rf"  Use another:  taskplane dev (.*)        Or stop it:  kill {pid}", lines[1])
    assert said is not None
    told = dict(zip(said[1].split()[::2], said[1].split()[1::2], strict=True))
    assert (set(told), told[other]) == ({"--port", "--grpc-port"}, "0")
    assert int(told[flag]) > port
    assert lines[2] == "  PORT_IN_USE"


def test_the_suggested_command_for_other_ports_works_and_keeps_the_options(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(AGENT)
    with holding(2) as (pid, [port, grpc]):
        given = ("--agent", "own:Greeter", "--data", "my data", "--no-browser")
        done = taskplane("dev", *given, "--port", str(port), "--grpc-port", str(grpc), cwd=tmp_path)
        lines = done.stderr.splitlines()
        assert lines[0].startswith(f"✗ Ports {port} and {grpc} are in use by ")
        said = re.fullmatch(rf"  Use others:  taskplane dev (.*)        Or stop it:  kill {pid}", lines[1])
        assert said is not None
        with dev(*shlex.split(said[1]), cwd=tmp_path) as plane:
            assert plane.url.rpartition(":")[2] not in {str(port), "8080"}
            assert taskplane("chat", "--url", plane.url, "-m", "Ada").stdout == "Good day, Ada.\n"
        assert (tmp_path / "my data" / "tasks.db").exists()


def test_the_suggested_command_for_other_ports_contains_no_password(tmp_path: Path) -> None:
    with holding(1) as (_, [port]):
        url = "postgresql://ann:secret@127.0.0.1/plane"
        done = taskplane("dev", "--port", str(port), "--grpc-port", "0", "--database-url", url, cwd=tmp_path)
    assert "--database-url URL" in done.stderr
    assert "secret" not in done.stderr


def test_a_second_plane_on_the_same_data_is_refused_and_names_the_file(tmp_path: Path) -> None:
    with dev("--data", "data", cwd=tmp_path):
        done = taskplane("dev", "--port", "0", "--grpc-port", "0", "--data", "data", cwd=tmp_path)
    assert done.returncode == 1
    assert "tasks.db" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_that_is_reachable_from_outside_is_refused_without_authentication(tmp_path: Path) -> None:
    done = taskplane("dev", "--host", "0.0.0.0", "--port", "0", "--grpc-port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "TASKPLANE_GATEWAY_API_KEYS" in done.stderr
    assert "AUTHENTICATION_REQUIRED" in done.stderr


def test_a_misspelt_setting_is_refused_with_the_intended_name(tmp_path: Path) -> None:
    done = taskplane("dev", "--port", "0", "--grpc-port", "0", cwd=tmp_path, env={"TASKPLANE_TASKS_LEASE_TLL": "9"})
    assert done.returncode == 2
    assert "TASKPLANE_TASKS_LEASE_TTL" in done.stderr


def test_data_and_database_url_exclude_one_another(tmp_path: Path) -> None:
    done = taskplane(
        "dev", "--port", "0", "--grpc-port", "0", "--data", "d", "--database-url", "sqlite:///x.db", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "exclude each other" in done.stderr
