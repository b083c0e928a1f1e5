"""Detection of the library that an agent was written for."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCard as CardOfTheSdk
from tests.executor.isolated import Plain

from taskplane.agents.adapters import adapt
from taskplane.agents.adapters.detection import LIBRARIES
from taskplane.agents.adapters.functions import FunctionAgent
from taskplane.agents.agent import Policied, Policy, Turn
from taskplane.agents.loading import Agents, load_agents
from taskplane.runtime.errors import Invalid

MODULE = '''
from functools import partial

def shout(text):
    """Shouts.

    Loudly."""
    return text.upper() + "!"

def make():
    return shout

async def listen(text, *, twice=False):
    return text

class Bot:
    async def __call__(self, text):
        yield text

    def method(self, text):
        return text

bot = Bot()
quiet = partial(shout)

def both(text, history):
    return text

async def made():
    return shout

class Cardless:
    def __call__(self, text):
        return text

    async def run(self, text):
        return text

cardless = Cardless()
number = 5
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with functions in the working directory."""
    name = f"functions_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    for library in ("langgraph", "langchain_core.messages", "google.adk.agents", "pydantic_ai", "a2a.types", "tomlkit"):
        (tmp_path / f"{name}_{library.partition('.')[0]}.py").write_text(
            f'raise ModuleNotFoundError("No module named {library!r}", name={library!r})\n'
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    return name


def test_a_function_with_a_parameter_is_an_agent_and_a_function_without_one_creates_it(module: str) -> None:
    specs = ["shout", "make", "listen", "Bot", "bot", "bot.method", "quiet"]
    agents = load_agents([f"a{number}={module}:{spec}" for number, spec in enumerate(specs)])
    assert all(isinstance(hosted.agent, FunctionAgent) for hosted in agents.by_name.values())
    card = agents.named("a1").agent.card
    assert (card.name, card.description, card.version, card.capabilities.streaming) == ("a1", "Shouts.", "1", True)
    assert load_agents([f"{module}:bot.method"]).names == ("method",)


@pytest.mark.parametrize(
    ("spec", "problem", "suggestion"),
    [
        ("{module}:both", "a function that needs 2 arguments is not an agent", "use one argument"),
        ("{module}:made", "this one is a coroutine", "give it one parameter"),
        ("{module}:Cardless", "an object of type Cardless is not an agent", "`card`"),
        ("{module}:cardless", "an object of type Cardless is not an agent", "`card`"),
        ("{module}:number", "an object of type int is not an agent", "pydantic-ai, google-adk, langgraph, a2a-sdk"),
        ("https://example.com/card.json", "requires a name", "name=https://example.com/card.json"),
        ("{module}_langgraph:x", "No module named 'langgraph'", "pip install 'taskplane[langgraph]'"),
        (
            "{module}_langchain_core:x",
            "No module named 'langchain_core.messages'",
            "pip install 'taskplane[langgraph]'",
        ),
        ("{module}_google:x", "No module named 'google.adk.agents'", "pip install 'taskplane[adk]'"),
        ("{module}_pydantic_ai:x", "No module named 'pydantic_ai'", "pip install 'taskplane[llm]'"),
        ("{module}_a2a:x", "No module named 'a2a.types'", "pip install 'taskplane[a2a-sdk]'"),
        ("{module}_tomlkit:x", "No module named 'tomlkit'", "install its requirements"),
    ],
)
def test_an_object_that_is_not_an_agent_is_refused_with_reason_and_remedy(
    module: str, spec: str, problem: str, suggestion: str
) -> None:
    """P9: wrong use, and a library that is not installed."""
    with pytest.raises(Invalid) as wrong:
        load_agents([spec.format(module=module)])
    assert wrong.value.reason == "BAD_AGENT"
    assert problem in wrong.value.message
    assert suggestion in wrong.value.suggestion


def test_a_card_of_the_a2a_sdk_is_refused() -> None:
    class Mistaken(Plain):
        card: Any = CardOfTheSdk(name="mistaken")

    with pytest.raises(Invalid, match=r"its `card` is a a2a_pb2\.AgentCard"):
        adapt(Mistaken(), "a")


def test_agents_created_in_code_are_adapted_and_may_have_a_policy() -> None:
    def echo(text: str) -> str:
        return text

    assert isinstance(Agents({"a": echo}).named("a").agent, FunctionAgent)
    ours = Plain()
    assert adapt(ours, "a") is ours
    agent = adapt(echo, "a", Policy(on_orphan="rerun"))
    assert isinstance(agent, Policied)
    turn: Turn = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType] - the policy does not read it
    assert agent.policy(turn).on_orphan == "rerun"


def test_an_isolated_agent_keeps_its_name_and_source(module: str) -> None:
    hosted = load_agents([f"f={module}:shout@process", f"{module}:listen@thread"])
    assert [(one.name, one.isolation, one.source) for one in hosted.by_name.values()] == [
        ("f", "process", f"f={module}:shout"),
        ("listen", "thread", f"{module}:listen"),
    ]


def test_no_library_is_imported_that_the_agent_does_not_use(module: str) -> None:
    """Each costs more than a second and tens of MiB."""
    packages = [package for library in LIBRARIES for package in library.packages]
    program = (
        f"import sys; from taskplane.agents.loading import load_agents; load_agents(['{module}:shout', 'demo']);"
        f"print([name for name in {packages} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
