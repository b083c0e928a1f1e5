"""Agents by name: `[name=]module:attribute`, or the short name of one that is shipped."""

import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from taskplane.api.a2a.v1.a2a_pb2 import AgentCard
from taskplane.executor.agent import ISOLATIONS, Agent
from taskplane.executor.agents.demo import Demo
from taskplane.executor.agents.llm.settings import PREFIX as LLM
from taskplane.executor.agents.llm.settings import LlmSettings
from taskplane.executor.hosted import Hosted
from taskplane.runtime.errors import Invalid, NotFound
from taskplane.runtime.settings import load

_POLICY: Final = "write `def policy(self, turn)` that returns a Policy"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Agents:
    """The agents of one executor, the default one first."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        isolations: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        """`isolations`: where agents run, by name, instead of where their policy says. `sources`: the specs by which
        their own processes load them, as `load_agents` takes them. Invalid: an agent shall run in a process, and has no
        source.
        """
        wanted, named = isolations or {}, sources or {}
        for name, isolation in wanted.items():
            if isolation == "process" and name not in named:
                problem = "it was made in code, so that a process of its own cannot load it"
                raise _bad(name, problem, 'name it as module:attribute, or run it in a thread: isolation "thread"')
        self.by_name: Final = {
            name: Hosted.of(name, agent, wanted.get(name, ""), named.get(name, "")) for name, agent in agents.items()
        }
        self.names: Final = tuple(self.by_name)

    def named(self, name: str) -> Hosted:
        """Return the agent of that name, or the default one for "". NotFound `AGENT_NOT_FOUND`."""
        name = name or self.names[0]
        hosted = self.by_name.get(name)
        if hosted is None:
            raise NotFound(
                f"there is no agent {name!r} here",
                reason="AGENT_NOT_FOUND",
                suggestion=_did_you_mean(name, self.names) or f"there are: {', '.join(self.names)}",
            )
        return hosted


def load_agents(specs: Iterable[str], *, allow_crash: bool = False) -> Agents:
    """Load every agent that is named, in their order; none: `demo`.

    A spec is `[name=]module:attribute` - the attribute an agent, or a class or function without arguments that makes
    one - or a short name, and then perhaps `@process`, `@thread` or `@none`, see `Policy.isolation`. Modules are looked
    for on the import path and in the working directory. `allow_crash`: the demo agent may end the process. Invalid:
    says what could not be loaded, why, and what was perhaps meant.
    """
    shipped: dict[str, Callable[[], Agent]] = {"demo": lambda: Demo(allow_crash=allow_crash), "llm": _language_model}
    agents: dict[str, Agent] = {}
    isolations: dict[str, str] = {}
    sources: dict[str, str] = {}
    for spec in tuple(specs) or ("demo",):
        target, _, isolation = spec.partition("@")
        if isolation not in ("", *ISOLATIONS):
            near = _did_you_mean(isolation, ISOLATIONS) or f"there are: {', '.join(ISOLATIONS)}"
            raise _bad(spec, f"there is no isolation {isolation!r}", near)
        name, agent = _load(target, shipped)
        if name in agents:
            raise _bad(spec, f"there are two agents named {name!r}", "give one of them a name: other=module:attribute")
        agents[name] = agent
        isolations[name] = isolation
        sources[name] = target
    return Agents(agents, isolations, sources)


def _language_model() -> Agent:
    try:
        from taskplane.executor.agents.llm import LanguageModel
    except ImportError as error:
        raise _bad("llm", str(error), "install the extra, or name another agent") from error
    return LanguageModel.of(load(LlmSettings, LLM))


def _load(spec: str, shipped: Mapping[str, Callable[[], Agent]]) -> tuple[str, Agent]:
    given, _, target = spec.rpartition("=")
    if ":" not in target:
        if target not in shipped:
            near = _did_you_mean(target, shipped) or "write module:attribute, for example my_agents:greeter"
            raise _bad(spec, f"there is no shipped agent {target!r}", near)
        name = given or target
        agent = shipped[target]()
    else:
        module_name, _, attribute = target.partition(":")
        agent = _agent(spec, _attribute(spec, _module(spec, module_name), attribute))
        name = given or attribute.rpartition(".")[2]
    if not _NAME.fullmatch(name):
        raise _bad(spec, f"{name!r} is not a name for an agent", "use letters, digits, '-', '_' and '.', at most 64")
    return name, agent


def _module(spec: str, name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            files = [entry.removesuffix(".py") for entry in os.listdir(here) if entry.endswith(".py")]
            near = _did_you_mean(name, files) or f"is it in {here}, or installed?"
            raise _bad(spec, f"there is no module {name!r}", near) from error
        raise _bad(spec, f"module {name!r} could not be imported: {error}", "install what it needs") from error
    except (Exception, SystemExit) as error:
        raise _bad(spec, f"module {name!r} could not be imported: {type(error).__name__}: {error}", "") from error


def _attribute(spec: str, module: Any, path: str) -> Any:
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise _bad(spec, f"{module.__name__} has no attribute {path!r}", _did_you_mean(part, names))
        found = getattr(found, part)
    return found


def _agent(spec: str, found: Any) -> Agent:
    if isinstance(found, type) or inspect.isfunction(found):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {error}"
            raise _bad(spec, f"it could not be made: {text}", "make it callable without arguments") from error
    card: object = getattr(found, "card", None)
    if not isinstance(found, Agent) or not isinstance(card, AgentCard):
        raise _bad(
            spec,
            f"a {type(found).__name__} is not an agent",
            "an agent has a `card` (AgentCard) and a method `run(turn)` that yields changes",
        )
    if not card.name.strip():
        raise _bad(spec, "its card has no name", "give it one: AgentCard(name=..., description=..., version=...)")
    if inspect.iscoroutinefunction(found.run):
        raise _bad(spec, "`run` is a coroutine, not a generator", "yield changes in it instead of returning")
    policy: object = getattr(found, "policy", None)
    if policy is not None and not callable(policy):
        raise _bad(spec, f"`policy` is a {type(policy).__name__}, not a method", _POLICY)
    if inspect.iscoroutinefunction(policy):
        raise _bad(spec, "`policy` is a coroutine, and nobody waits for it", _POLICY)
    return found


def _bad(spec: str, problem: str, suggestion: str) -> Invalid:
    return Invalid(f"agent {spec!r}: {problem}", reason="BAD_AGENT", suggestion=suggestion, fields={"agents": problem})


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
