"""Each distribution, installed into a clean virtual environment as users do, streams an answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.release.building import Built
from tests.release.environments import PATIENCE, PYTHONS, Environment, RunningPlane, interpreter
from tests.repo.tree import ROOT
from tests.support.postgres import Cluster
from tests.support.thorough import THOROUGH

from taskplane.api import __version__

pytestmark = [
    pytest.mark.more,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not THOROUGH, reason="installs for most of a minute; THOROUGH=1 runs it"),
]
Fresh = Callable[[str, str], Environment]

_ADK = '''
"""An agent of ADK without a model."""

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Greeter(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text="Good day, ADK.")]))


agent = Greeter(name="greeter", description="Greets.")
'''
_LLM = '''
"""An agent of pydantic-ai whose model is scripted."""

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(custom_output_text="Good day, model."))
'''


def streamed(plane: RunningPlane, text: str) -> list[dict[str, Any]]:
    """The events of the answer, received over one connection."""
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    with httpx.stream("POST", plane.url, json=call, headers={"A2A-Version": "1.0"}, timeout=PATIENCE) as reply:
        data = [line.removeprefix("data:") for line in reply.iter_lines() if line.startswith("data:")]
    return [json.loads(each)["result"] for each in data]


def last_state(events: list[dict[str, Any]]) -> str:
    """The state of the task after the last event."""
    state: str = events[-1]["statusUpdate"]["status"]["state"]
    return state


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    """Makes an environment of a version of Python, with a name; skips the test if that version is not at hand."""

    def make(version: str, name: str) -> Environment:
        python = interpreter(version)
        if not python:
            pytest.skip(f"no interpreter of Python {version} is at hand")
        return Environment.create(python, tmp_path / name)

    return make


def newest() -> str:
    """The newest version of Python at hand."""
    return [version for version in PYTHONS if interpreter(version)][-1]


@pytest.mark.parametrize("version", PYTHONS)
def test_both_wheels_without_extras_stream_an_answer(built: Built, fresh: Fresh, version: str) -> None:
    """The server in one environment, and a program with the client alone in another."""
    server = fresh(version, "server")
    server.install(str(built.wheel("taskplane")))
    assert server.run("taskplane", "--version").stdout.startswith(f"taskplane {__version__}\npython {version}.")
    client = fresh(version, "client")
    client.install(str(built.wheel("taskplane_client")))
    assert client.run("python", "-c", "import sqlalchemy").returncode == 1, "the server is not there"
    refused = server.run("taskplane", "dev", "--port", "0", "--grpc-port", "0", "--agent", "llm")
    assert (refused.returncode != 0, "taskplane[llm]" in refused.stdout + refused.stderr) == (True, True)
    with server.plane() as plane:
        assert last_state(streamed(plane, "count 3")) == "TASK_STATE_COMPLETED"
        assert server.run("taskplane", "chat", "--url", plane.url, "-m", "hello").stdout == "hello\n"
        assert httpx.get(f"{plane.url}/.well-known/agent-card.json").json()["version"] == __version__
        assert "<script" in httpx.get(f"{plane.url}/ui/", follow_redirects=True).text
        program = str(ROOT / "docs" / "examples" / "calling.py")
        called = client.run("python", program, plane.grpc, "demo", "smoke-1", "count 3")
        assert called.stdout.splitlines()[-1] == "TASK_STATE_COMPLETED", called.stderr
        assert len(called.stdout.splitlines()) > 3
        asked = client.run("python", str(ROOT / "docs" / "examples" / "ask.py"), plane.url, "smoke-2", "count 3")
        assert asked.stdout == "1 submitted\n2 working\n7 completed 1 2 3\n", asked.stderr


@pytest.mark.parametrize(
    ("extra", "agent", "source", "text", "answer"),
    [
        ("langgraph", "booking:graph", "booking.py", "the night train", "Shall I book the night train?"),
        ("a2a-sdk", "a2a_greeter:Greeter", "a2a_greeter.py", "Ada", "Welcome, Ada."),
        ("adk", "greeting:agent", _ADK, "hello", "Good day, ADK."),
        ("llm", "greeting:agent", _LLM, "hello", "Good day, model."),
    ],
)
def test_an_extra_alone_is_enough_for_its_agents(
    built: Built, fresh: Fresh, extra: str, agent: str, source: str, text: str, answer: str
) -> None:
    environment = fresh(newest(), "extra")
    environment.install(f"taskplane[{extra}] @ {built.wheel('taskplane').as_uri()}")
    code = (ROOT / "docs" / "examples" / source).read_text() if source.endswith(".py") else source
    (environment.folder / f"{agent.partition(':')[0]}.py").write_text(code)
    with environment.plane("--agent", agent) as plane:
        events = streamed(plane, text)
    assert last_state(events) in ("TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED")
    assert answer in json.dumps(events)


@pytest.mark.parametrize("version", PYTHONS)
def test_the_extra_of_postgresql_alone_is_enough_for_its_stores(
    built: Built, fresh: Fresh, cluster: Cluster, version: str
) -> None:
    environment = fresh(version, "extra")
    environment.install(f"taskplane[postgres] @ {built.wheel('taskplane').as_uri()}")
    url = cluster.url(cluster.create())
    stores = {f"TASKPLANE_{store}_DATABASE_URL": url for store in ("TASKS", "SESSIONS")}
    with environment.plane(env=stores) as plane:
        assert last_state(streamed(plane, "count 3")) == "TASK_STATE_COMPLETED"


def test_both_sdists_are_installed_without_node_and_stream_an_answer(built: Built, fresh: Fresh) -> None:
    server, client = fresh(newest(), "server"), fresh(newest(), "client")
    server.install(str(built.sdist("taskplane")))
    client.install(str(built.sdist("taskplane_client")))
    with server.plane() as plane:
        assert last_state(streamed(plane, "count 3")) == "TASK_STATE_COMPLETED"
        assert "<script" in httpx.get(f"{plane.url}/ui/", follow_redirects=True).text
        program = str(ROOT / "docs" / "examples" / "calling.py")
        called = client.run("python", program, plane.grpc, "demo", "smoke-1", "count 3")
        assert called.stdout.splitlines()[-1] == "TASK_STATE_COMPLETED", called.stderr
        asked = client.run("python", str(ROOT / "docs" / "examples" / "ask.py"), plane.url, "smoke-2", "count 3")
        assert asked.stdout.splitlines()[-1] == "7 completed 1 2 3", asked.stderr
