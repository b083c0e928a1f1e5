"""Detection of the library of an agent: by type, without an import of a library that the agent does not use.

To serve agents of another library, add a line to `LIBRARIES` and a module with `adapt(found, name) -> Agent`.
"""

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from taskplane.agents.adapters.refusals import bad_agent
from taskplane.agents.agent import Agent, Policy
from taskplane.agents.card_rules import broken_rules
from taskplane.agents.sources import defined_at, described, in_parentheses, line_of, place_of, said
from taskplane.api.a2a.v1.a2a_pb2 import AgentCard

_ADAPTERS: Final = "taskplane.agents.adapters"
OLD_SDK: Final = (
    "run code for a2a-sdk 0.3 on its own server with its own environment, and serve it here as a remote agent: NAME=URL"
)
"""The advice for code of the SDK before 1.0."""
_POLICY: Final = "write `def policy(self, turn)` that returns a Policy"
_EXTENDED: Final = "write `def extended_card(self, caller)` that returns an AgentCard or None"
_CARD: Final = "AgentCard(name=..., description=..., version=...)"
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
# Fields of a card that one error names.
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Library:
    """A library that agents are written with."""

    # Names of modules, submodules included: of the library, and of the other packages that its extra installs.
    packages: tuple[str, ...]
    # The public names of the types of agents.
    types: tuple[str, ...]
    # The module of this package that serves these agents.
    adapter: str
    # The pip extra that installs the library.
    extra: str

    def has(self, module: str) -> bool:
        """Return whether a module belongs to the library."""
        return any(module == package or module.startswith(f"{package}.") for package in self.packages)

    def is_agent(self, found: Any) -> bool:
        """Return whether an object is an agent of the library. The library is imported only if the object's class, or a
        class above it, is from the library."""
        if not any(self.has(base.__module__) for base in type(found).__mro__):
            return False
        return isinstance(found, tuple(_public(name) for name in self.types))


LIBRARIES: Final = (
    Library(("pydantic_ai", "openai", "mcp"), ("pydantic_ai.agent:AbstractAgent",), "pydantic_ai", "llm"),
    Library(
        ("google.adk", "google.genai"),
        ("google.adk.workflow:BaseNode", "google.adk.runners:Runner", "google.adk.apps:App"),
        "adk",
        "adk",
    ),
    Library(
        ("langgraph", "langchain_core"),
        ("langgraph.pregel:Pregel", "langgraph.graph:StateGraph"),
        "langgraph",
        "langgraph",
    ),
    Library(("a2a",), ("a2a.server.agent_execution:AgentExecutor",), "a2a_sdk", "a2a-sdk"),
)
"""The libraries with agents that can be served."""
REMOTE: Final = Library(("a2a",), (), "remote", "a2a-sdk")
"""The library for remote agents, which are named by the URL of their card."""


def adapt(thing: Any, name: str, policy: Policy | None = None) -> Agent:
    """Return the agent that serves `thing`, under that name.

    `thing` is an Agent, which is returned itself; an agent of pydantic-ai, google-adk, LangGraph or the A2A SDK; the
    URL of the card of a remote agent; a function of one parameter; or a class or function without parameters that
    returns an agent or a function of one parameter. With `policy`, the attribute `policy` of the returned agent is
    replaced. Invalid `BAD_AGENT` names the problem.
    """
    agent = detect(thing, name, name)
    if policy is not None:
        # Optional methods are looked up on the object, so `policy` can be set on any agent.
        agent.policy = lambda turn: policy  # type: ignore[attr-defined]
    return agent


def detect(thing: Any, name: str, spec: str) -> Agent:
    """Do as `adapt` without a policy. `spec`: the agent as the operator wrote it, for errors."""
    found: Any = thing
    if isinstance(thing, str) and is_url(thing):
        return _adapted(found, name, spec, REMOTE)
    if isinstance(found, type) or (_is_function(found) and _parameters(found) == 0):
        found = _from_factory(found, spec)
    if isinstance(found, Agent):
        return _checked(found, spec)
    for library in LIBRARIES:
        if library.is_agent(found):
            return _with_good_card(_adapted(found, name, spec, library), spec)
    if _is_function(found):
        return _function(found, name, spec)
    raise bad_agent(
        spec,
        f"an object of type {type(found).__name__} is not an agent",
        "an agent has a `card` (AgentCard) and a method `run(turn)` that yields changes, or is a function of the text;"
        " agents of these libraries are served, too: pydantic-ai, google-adk, langgraph, a2a-sdk",
    )


def is_url(target: str) -> bool:
    """Return whether an agent is named by a URL."""
    return bool(_URL.match(target))


def advice(error: ImportError) -> str:
    """Return the remedy for an import that failed; empty if it is unknown."""
    missing = error.name or ""
    # Every version has `a2a.types`: without it the SDK is not installed.
    if missing.startswith("a2a.") and (missing != "a2a.types" or not isinstance(error, ModuleNotFoundError)):
        return f"the code may be written for a2a-sdk 0.3: {OLD_SDK}"
    if isinstance(error, ModuleNotFoundError):
        for library in LIBRARIES:
            if library.has(missing):
                return f"pip install 'taskplane[{library.extra}]'"
    return ""


def _public(name: str) -> type:
    module, _, attribute = name.partition(":")
    found: type = getattr(importlib.import_module(module), attribute)
    return found


def _adapted(found: Any, name: str, spec: str, library: Library) -> Agent:
    module = f"{_ADAPTERS}.{library.adapter}"
    try:
        adapter = importlib.import_module(module)
    except ImportError as error:
        problem = f"a required library is missing or too old: {said(error)}"
        raise bad_agent(spec, problem, f"pip install 'taskplane[{library.extra}]'") from error
    agent: Agent = adapter.adapt(found, name)
    return agent


def _is_function(found: Any) -> bool:
    """Return whether an object can be called, is not a class, and has neither `run` nor `card`."""
    return callable(found) and not isinstance(found, type) and not hasattr(found, "run") and not hasattr(found, "card")


def _function(found: Callable[..., Any], name: str, spec: str) -> Agent:
    if (count := _parameters(found)) != 1:
        problem = f"a function that needs {count} arguments is not an agent"
        raise bad_agent(
            spec, problem, "use one argument, the text of the message, for an agent, or none for a factory of agents"
        )
    from taskplane.agents.adapters import functions

    return functions.adapt(found, name)


def _parameters(function: Callable[..., Any]) -> int:
    """Return the number of required arguments of a function; 1 if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return 1
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(p.default is inspect.Parameter.empty and p.kind not in optional for p in parameters)


def _from_factory(make: Callable[[], Any], spec: str) -> Any:
    if inspect.iscoroutinefunction(make) or inspect.isgeneratorfunction(make) or inspect.isasyncgenfunction(make):
        problem = "a function without parameters must return an agent, but this one is a coroutine or a generator"
        raise bad_agent(spec, problem, "give it one parameter, the text of the message, to make it an agent")
    try:
        return make()
    except (Exception, SystemExit) as error:
        problem = f"its factory failed: {described(error)}{in_parentheses(place_of(error))}"
        raise bad_agent(spec, problem, line_of(error) or "make it callable without arguments") from error


def _checked(agent: Agent, spec: str) -> Agent:
    card: Any = agent.card
    if not isinstance(card, AgentCard):
        place = in_parentheses(defined_at(agent))
        problem = f"its `card` is a {type(card).__module__}.{type(card).__qualname__}{place}"
        raise bad_agent(spec, problem, f"import AgentCard from taskplane.agents: {_CARD}")
    if not card.name.strip():
        raise bad_agent(spec, f"its card has no name{_place_of_card(agent)}", f"give it one: {_CARD}")
    if inspect.iscoroutinefunction(agent.run):
        problem = f"`run` is a coroutine, not a generator{in_parentheses(defined_at(agent))}"
        raise bad_agent(spec, problem, "yield changes in it instead of returning a result")
    policy: object = getattr(agent, "policy", None)
    if policy is not None and not callable(policy):
        raise bad_agent(spec, f"`policy` is of type {type(policy).__name__}, not a method", _POLICY)
    if inspect.iscoroutinefunction(policy):
        raise bad_agent(spec, "`policy` is a coroutine; it must be a plain method", _POLICY)
    extended: object = getattr(agent, "extended_card", None)
    if extended is not None and not callable(extended):
        raise bad_agent(spec, f"`extended_card` is of type {type(extended).__name__}, not a method", _EXTENDED)
    return _with_good_card(agent, spec)


def _with_good_card(agent: Agent, spec: str) -> Agent:
    """Return the agent if clients can read its card. The card of another server is completed by the gateway."""
    if getattr(agent, "card_of_another_server", False) or not (broken := broken_rules(agent.card)):
        return agent
    fields = "; ".join(str(one) for one in broken[:_SHOWN])
    more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    problem = f"its card breaks rules of A2A: {fields}{more}{_place_of_card(agent)}"
    raise bad_agent(spec, problem, "; ".join(dict.fromkeys(one.remedy for one in broken[:_SHOWN])))


def _place_of_card(agent: Agent) -> str:
    """Return the file of the card of an agent that workers run; for another agent, the place of its class."""
    return in_parentheses(getattr(agent, "card_file", "") or defined_at(agent))
