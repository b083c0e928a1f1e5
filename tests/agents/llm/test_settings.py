"""The llm agent by its short name, from settings alone."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from tests.agents.llm.turns import by_stage
from tests.executor.plane import Stores, open_plane, text
from tests.support.scripted_model import calls, open_model
from tests.support.scripted_model import text as words

from taskplane.agents.adapters.detection import adapt
from taskplane.agents.agent import Policy
from taskplane.agents.llm import LanguageModel
from taskplane.agents.loading import Agents, load_agents
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.cli.settings import ALSO, KNOWN
from taskplane.runtime.errors import Invalid
from taskplane.runtime.settings import check_unknown

THREADED = adapt(Agent(TestModel()), "threaded", Policy(isolation="thread"))


async def test_settings_are_enough_for_an_agent(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: `--agent llm` with the variables of the provider."""
    made = calls(("createArtifact", {"name": "n", "content": "c"}))
    work = iter([made, words("Written.")])
    async with open_model(by_stage(work=lambda _: next(work))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setenv("TASKPLANE_LLM_MODEL", "openai-chat:scripted")
        monkeypatch.setenv("TASKPLANE_LLM_PROMPT", "You write reports.")
        monkeypatch.setenv("TASKPLANE_LLM_RUN_LIMIT", "30")
        async with open_plane(stores, loaded=["llm"]) as plane:
            agent = plane.service.agents.named("llm").agent
            assert isinstance(agent, LanguageModel)
            task = await plane.run("write")
            assert text(task.status.message) == "Written." and len(task.artifacts) == 1
            assert all("You write reports." in request.system for request in server.requests)
            assert server.requests[0].headers["authorization"] == "Bearer any"
            assert agent.settings.run_limit == 30.0
            await agent.aclose()


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("", "TASKPLANE_LLM_MODEL is not set"),
        ("gpt-5", "gpt-5"),
        ("nobody:gpt-5", "nobody"),
        ("openai-chat:x", "API_KEY"),
    ],
)
def test_an_unusable_model_stops_the_start(model: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: with the setting to change."""
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TASKPLANE_LLM_MODEL", model)
    with pytest.raises(Invalid, match=problem) as raised:
        load_agents(["llm"])
    assert raised.value.reason == "BAD_SETTING" and "openai-chat:" in raised.value.suggestion


def test_isolation_in_a_thread_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: its connections would belong to a closed event loop; also for an agent of pydantic-ai."""
    monkeypatch.setenv("TASKPLANE_LLM_MODEL", "test")
    ways: list[Callable[[], Agents]] = [
        lambda: load_agents(["llm@thread"]),
        lambda: Agents({"llm": Agent("test")}, {"llm": "thread"}),
    ]
    for refused in ways:
        with pytest.raises(Invalid, match="agent 'llm@thread': it keeps its connections") as raised:
            refused()
        assert raised.value.reason == "BAD_AGENT" and "@process" in raised.value.suggestion
    assert load_agents(["llm@process"]).by_name["llm"].isolation == "process"


@pytest.mark.parametrize("isolation", ["", "@none"])
async def test_isolation_in_a_thread_by_the_policy_fails_the_task(
    stores: Stores, caplog: pytest.LogCaptureFixture, isolation: str
) -> None:
    """P9: the log has the reason and the remedy; the operator may set another isolation."""
    async with open_plane(stores, loaded=[f"{__name__}:THREADED{isolation}"]) as plane:
        task = await plane.run("go")
    refused = not isolation
    assert task.status.state == (a2a.TASK_STATE_FAILED if refused else a2a.TASK_STATE_COMPLETED)
    assert ("it keeps its connections" in caplog.text and "@process" in caplog.text) == refused


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RUN_LIMIT", "-1"),
        ("RUN_LIMIT", "nan"),
        ("RUN_LIMIT", "inf"),
        ("TIMEOUT", "0"),
        ("TIMEOUT", "nan"),
        ("TIMEOUT", "inf"),
        ("MCP_TIMEOUT", "0"),
        ("DIRECT_WITHIN", "0"),
        ("DIRECT_WITHIN_UNARY", "nan"),
        ("ATTEMPTS", "0"),
        ("ARTIFACT", "no"),
        ("MCP", "python 'x"),
    ],
)
def test_an_invalid_setting_is_refused(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKPLANE_LLM_MODEL", "test")
    monkeypatch.setenv(f"TASKPLANE_LLM_{variable}", value)
    with pytest.raises(Invalid, match=f"TASKPLANE_LLM_{variable} ") as raised:
        load_agents(["llm"])
    assert set(raised.value.fields) == {f"TASKPLANE_LLM_{variable}"}


def test_a_misspelt_variable_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(Invalid, match="did you mean TASKPLANE_LLM_MODEL"):
        check_unknown({"TASKPLANE_LLM_MODL": "x"}, KNOWN, ALSO)


def test_without_the_extra_only_the_llm_agent_fails_and_names_the_extra() -> None:
    """An executor of other agents does not import the library."""
    without = "import sys; sys.modules['pydantic_ai'] = None; from taskplane.agents.loading import load_agents; "
    command = [sys.executable, "-c", without + "load_agents(['demo']); load_agents(['llm'])"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pip install 'taskplane[llm]'" in found.stderr.splitlines()[-1]
