"""Loading agents by name."""

import sys
from pathlib import Path

import pytest

from taskplane.agents.demo import Demo
from taskplane.agents.loading import load_agents
from taskplane.runtime.errors import Invalid, NotFound

MODULE = """
from taskplane.agents.agent import AgentCard, Complete, Policy

class Greeter:
    card = AgentCard(name="greeter", version="1")

    async def run(self, turn):
        yield Complete("hello")

class Coroutine:
    card = AgentCard(name="coroutine", version="1")

    async def run(self, turn):
        return Complete("hello")

class Needy(Greeter):
    def __init__(self, model):
        self.model = model

class Nameless(Greeter):
    card = AgentCard(version="1")

class Blank(Greeter):
    card = AgentCard(name="   ", version="1")

class Fixed(Greeter):
    policy = Policy(strategy="queue")

class Slow(Greeter):
    async def policy(self, turn):
        return Policy(strategy="queue")

class Extra(Greeter):
    extended_card = AgentCard(name="more", version="1")

class Quitter(Greeter):
    def __init__(self):
        raise SystemExit(3)

class Cardless:
    async def run(self, turn):
        yield Complete("hello")

greeter = Greeter()

def make():
    return Greeter()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with agents in the working directory."""
    name = f"agents_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import nothing_like_this\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    return name


def test_an_instance_a_class_and_a_function_are_agents_named_by_their_attribute(module: str) -> None:
    agents = load_agents([f"{module}:greeter", f"{module}:Greeter", f"other={module}:make"])
    assert agents.names == ("greeter", "Greeter", "other")
    assert agents.named("") is agents.by_name["greeter"]


def test_without_a_name_the_demo_agent_is_loaded() -> None:
    hosted = load_agents([]).named("")
    assert hosted.name == "demo" and isinstance(hosted.agent, Demo)
    assert load_agents(["show=demo"]).names == ("show",)


@pytest.mark.parametrize(
    ("spec", "problem", "suggestion"),
    [
        ("demmo", "there is no built-in agent 'demmo'", "did you mean 'demo'?"),
        ("greeter", "there is no built-in agent", "module:attribute"),
        ("{module}x:greeter", "there is no module", "did you mean '{module}'?"),
        ("{module}:greter", "has no attribute 'greter'", "did you mean 'greeter'?"),
        ("{module}_broken:x", "could not be imported: No module named 'nothing_like_this'", "install"),
        ("{module}:Needy", "its factory failed: TypeError", "without arguments"),
        ("{module}:Cardless", "an object of type Cardless is not an agent", "`card`"),
        ("{module}:Nameless", "its card has no name", "AgentCard(name="),
        ("{module}:Blank", "its card has no name", "AgentCard(name="),
        ("{module}:Fixed", "`policy` is of type Policy, not a method", "def policy(self, turn)"),
        ("{module}:Slow", "`policy` is a coroutine", "def policy(self, turn)"),
        ("{module}:Extra", "`extended_card` is of type AgentCard, not a method", "def extended_card(self, caller)"),
        ("{module}:Quitter", "its factory failed: SystemExit", "raise SystemExit"),
        ("{module}:Coroutine", "`run` is a coroutine", "yield"),
        ("a/b={module}:greeter", "'a/b' is not a valid agent name", "letters"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_refused_with_reason_and_suggestion(
    module: str, spec: str, problem: str, suggestion: str
) -> None:
    with pytest.raises(Invalid) as wrong:
        load_agents([spec.format(module=module)])
    assert wrong.value.reason == "BAD_AGENT"
    assert problem.format(module=module) in wrong.value.message
    assert suggestion.format(module=module) in wrong.value.suggestion


def test_two_agents_with_one_name_are_refused(module: str) -> None:
    with pytest.raises(Invalid, match="two agents named 'demo'"):
        load_agents(["demo", f"demo={module}:greeter"])


def test_an_unknown_agent_is_not_found_and_a_similar_name_is_suggested() -> None:
    with pytest.raises(NotFound) as unknown:
        load_agents(["demo"]).named("demi")
    assert unknown.value.suggestion == "did you mean 'demo'?"


def test_the_card_of_an_agent_that_workers_run_is_read_from_a_file(tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text('{"name": "Far", "description": "Runs elsewhere.", "version": "1"}')
    agents = load_agents(["demo", f"far=worker:{card}"], worker_on_orphan="rerun")
    assert agents.names == ("demo", "far") and agents.run_here == ("demo",)
    assert agents.named("far").agent.card.description == "Runs elsewhere."


@pytest.mark.parametrize(
    ("spec", "content", "why"),
    [
        ("far=worker:{}", None, "could not be read: No such file or directory"),
        ("far=worker:{}", "{", "is not a card of A2A 1.0"),
        ("far=worker:{}", '{"nam": "Far"}', 'no field named "nam"'),
        ("far=worker:{}", "{}", "its card has no name"),
        ("worker:{}", '{"name": "Far"}', "requires a name"),
        ("far=worker:{}@process", '{"name": "Far"}', "it runs in worker processes"),
    ],
)
def test_a_card_that_cannot_be_served_is_refused_with_the_reason(
    tmp_path: Path, spec: str, content: str | None, why: str
) -> None:
    card = tmp_path / "card.json"
    if content is not None:
        card.write_text(content)
    with pytest.raises(Invalid) as refused:
        load_agents([spec.format(card)])
    assert refused.value.reason == "BAD_AGENT" and why in refused.value.message
