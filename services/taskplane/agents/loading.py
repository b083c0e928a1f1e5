"""Agents by name: `[name=]module:attribute`, `name=URL`, or the short name of a shipped agent."""

import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from taskplane.agents.adapters.detection import advice, detect, is_url
from taskplane.agents.adapters.refusals import bad_agent, bad_code
from taskplane.agents.agent import Agent
from taskplane.agents.demo import Demo
from taskplane.agents.elsewhere import Elsewhere, OnOrphan
from taskplane.agents.hosted import NO_THREAD, Hosted
from taskplane.agents.llm.settings import PREFIX as LLM
from taskplane.agents.llm.settings import LlmSettings
from taskplane.agents.policy import ISOLATIONS
from taskplane.agents.sources import described, in_parentheses, line_of, place_of, said
from taskplane.api.reserved_names import RESERVED
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.settings import load

_WORKER: Final = "worker:"
_NAMED: Final = re.compile(r"[^=:]*=")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Agents:
    """The agents of one executor, the default one first."""

    def __init__(
        self,
        agents: Mapping[str, Any],
        isolations: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        """`agents`: arguments of `adapt`, by name. `isolations`: where agents run, by name, instead of where their
        policy says. `sources`: the specs by which processes load the agents, as for `load_agents`. Invalid: a name is
        reserved, an agent with the isolation "process" has no source, or one with "thread" belongs to one event loop.
        """
        wanted, named = isolations or {}, sources or {}
        for name in agents:
            if name in RESERVED:
                problem = f"the name {name!r} is reserved, since a path of the gateway begins with it"
                raise bad_agent(named.get(name, name), problem, "give the agent another name: NAME=module:attribute")
        for name, isolation in wanted.items():
            if isolation == "process" and name not in named:
                problem = "it was created in code, so that a separate process cannot load it"
                raise bad_agent(name, problem, 'name it as module:attribute, or run it in a thread: isolation "thread"')
        self.by_name: Final = {
            name: Hosted.of(name, detect(agent, name, name), wanted.get(name, ""), named.get(name, ""))
            for name, agent in agents.items()
        }
        for name, hosted in self.by_name.items():
            if hosted.isolation == "thread" and hosted.one_event_loop:
                raise bad_agent(f"{name}@thread", NO_THREAD, "leave @thread out, or run it in a process: @process")
        self.names: Final = tuple(self.by_name)
        # All agents whose tasks are not left to workers.
        self.run_here: Final = tuple(name for name, hosted in self.by_name.items() if not hosted.elsewhere)

    def replace(self, newer: "Agents") -> list[Hosted]:
        """Replace agents by the agents of `newer` with the same names, for turns that begin from now on.

        Return the replaced agents.
        """
        names = [name for name in newer.by_name if name in self.by_name]
        replaced = [self.by_name[name] for name in names]
        self.by_name.update((name, newer.by_name[name]) for name in names)
        return replaced

    def named(self, name: str) -> Hosted:
        """Return the agent of that name, or the default one for "". NotFound `AGENT_NOT_FOUND`."""
        name = name or self.names[0]
        hosted = self.by_name.get(name)
        if hosted is None:
            raise NotFound(
                f"there is no agent {name!r}",
                reason="AGENT_NOT_FOUND",
                suggestion=_did_you_mean(name, self.names) or f"there are: {', '.join(self.names)}",
            )
        return hosted


def load_agents(specs: Iterable[str], *, allow_crash: bool = False, worker_on_orphan: OnOrphan = "fail") -> Agents:
    """Load the agents of these specs, in order; without a spec, `demo`.

    A spec is one of `[name=]module:attribute` (an argument of `adapt`), `name=URL` (of the card of a remote agent),
    `name=worker:PATH.json` (the card of an agent that workers run), or the short name of a shipped agent. `@process`,
    `@thread` or `@none` may follow, see `Policy.isolation`. Modules are looked for on the import path and in the
    working directory. `allow_crash`: the demo agent may end the process. `worker_on_orphan`: the policy for a task of a
    lost worker. Invalid: names the agent that could not be loaded, the reason, and a similar name.
    """
    shipped: dict[str, Callable[[], Agent]] = {"demo": lambda: Demo(allow_crash=allow_crash), "llm": _language_model}
    agents: dict[str, Agent] = {}
    isolations: dict[str, str] = {}
    sources: dict[str, str] = {}
    for spec in tuple(specs) or ("demo",):
        target, isolation = _isolation(spec)
        if isolation not in ("", *ISOLATIONS):
            near = _did_you_mean(isolation, ISOLATIONS) or f"there are: {', '.join(ISOLATIONS)}"
            raise bad_agent(spec, f"there is no isolation {isolation!r}", near)
        try:
            name, agent = _load(target, shipped, worker_on_orphan)
        except PlaneError:
            raise
        except (Exception, SystemExit) as error:
            raise bad_code(spec, error) from error
        if isolation and isinstance(agent, Elsewhere):
            raise bad_agent(
                spec,
                f"it runs in worker processes, so that @{isolation} has no effect here",
                "set the isolation at its worker",
            )
        if name in agents:
            raise bad_agent(
                spec, f"there are two agents named {name!r}", "give one of them a name: other=module:attribute"
            )
        agents[name] = agent
        isolations[name] = isolation
        sources[name] = target
    return Agents(agents, isolations, sources)


def _language_model() -> Agent:
    try:
        from taskplane.agents.llm import LanguageModel
    except ImportError as error:
        raise bad_agent("llm", said(error), "install the extra, or name another agent") from error
    return LanguageModel.of(load(LlmSettings, LLM))


def _isolation(spec: str) -> tuple[str, str]:
    target, _, isolation = spec.rpartition("@")
    if "://" in spec and isolation not in ISOLATIONS:
        return spec, ""
    return (target, isolation) if target else (spec, "")


def _load(spec: str, shipped: Mapping[str, Callable[[], Agent]], worker_on_orphan: OnOrphan) -> tuple[str, Agent]:
    given, _, target = spec.partition("=") if _NAMED.match(spec) else ("", "", spec)
    name = given or target.rpartition(":")[2].rpartition(".")[2]
    is_worker = target.startswith(_WORKER) and target.endswith(".json")
    if (is_url(target) or is_worker) and not given:
        raise bad_agent(spec, "an agent of another server or of workers requires a name", f"give it one: name={target}")
    if not _NAME.fullmatch(name):
        raise bad_agent(spec, f"{name!r} is not a valid agent name", "use 1 to 64 letters, digits, '-', '_' and '.'")
    if is_url(target):
        return name, detect(target, name, spec)
    if is_worker:
        return name, _elsewhere(spec, target.removeprefix(_WORKER), worker_on_orphan)
    if ":" not in target:
        if target not in shipped:
            near = _did_you_mean(target, shipped) or "write module:attribute, for example my_agents:greeter"
            raise bad_agent(spec, f"there is no built-in agent {target!r}", near)
        return name, shipped[target]()
    module_name, _, attribute = target.partition(":")
    return name, detect(_attribute(spec, _module(spec, module_name), attribute), name, spec)


def _elsewhere(spec: str, path: str, on_orphan: OnOrphan) -> Agent:
    try:
        return detect(Elsewhere.read(path, on_orphan), path, spec)
    except ValueError as error:
        raise bad_agent(spec, str(error), "clients see this card; it must have at least a name") from error


def _module(spec: str, name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            files = [entry.removesuffix(".py") for entry in os.listdir(here) if entry.endswith(".py")]
            near = _did_you_mean(name, files) or f"check that it is in {here} or installed"
            raise bad_agent(spec, f"there is no module {name!r}", near) from error
        install = advice(error) or "install its requirements"
        raise bad_agent(
            spec, f"module {name!r} could not be imported: {said(error)}{in_parentheses(place_of(error))}", install
        ) from error
    except (Exception, SystemExit) as error:
        problem = f"module {name!r} could not be imported: {described(error)}{in_parentheses(place_of(error))}"
        near = (advice(error) if isinstance(error, ImportError) else "") or line_of(error)
        raise bad_agent(spec, problem, near) from error


def _attribute(spec: str, module: Any, path: str) -> Any:
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise bad_agent(spec, f"{module.__name__} has no attribute {path!r}", _did_you_mean(part, names))
        found = getattr(found, part)
    return found


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
