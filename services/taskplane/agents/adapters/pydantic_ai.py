"""Agents of pydantic-ai, served as they are.

Text, tools and their results are streamed; a tool named `createArtifact` with an argument `content` makes an artifact;
further messages of the user are read between two model calls; tool calls that wait for a result or an approval ask the
user for it.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, Literal

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import ReinjectSystemPrompt
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset

from taskplane.agents.adapters.approvals import decision, last_question, members, reason
from taskplane.agents.adapters.cards import card
from taskplane.agents.agent import Agent, AgentError, AskInput, Change, Checkpoint, Complete, Message, Part, Turn
from taskplane.agents.changes import data_message
from taskplane.agents.llm.artifact_stream import TOOL as ARTIFACT_TOOL
from taskplane.agents.llm.artifact_stream import artifact_ids
from taskplane.agents.llm.events import Events
from taskplane.agents.llm.history import conversation, messages_of
from taskplane.agents.llm.model_run import ModelRun
from taskplane.agents.llm.own_task import OwnTask
from taskplane.runtime.json_values import to_json
from taskplane.runtime.storable import storable


def adapt(found: AbstractAgent[Any, Any], name: str) -> Agent:
    """Return the agent that runs `found`, which has no dependencies, for each turn."""
    return PydanticAgent(found, name)


class PydanticAgent:
    """An agent of pydantic-ai as one of the port."""

    # Its model keeps connections, which belong to an event loop.
    one_event_loop: Final = True

    def __init__(self, agent: AbstractAgent[Any, Any], name: str) -> None:
        description = agent.description if isinstance(agent.description, str) else ""
        self.card = card(name, description or f"The agent {agent.name or name}, made with pydantic-ai.")
        self._agent = agent
        # The question to the user tells of calls that nobody here answers.
        self._asking = tuple(_external(agent))

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Run the agent on the conversation of a turn, or go on with its calls that waited for the user."""
        return OwnTask(lambda: self._work(turn))

    async def _work(self, turn: Turn) -> AsyncGenerator[Change, None]:
        waiting = _waiting(turn)
        options: dict[str, Any] = {}
        if waiting is None:
            messages = await messages_of(turn, tools=True)
        else:
            begun = ModelMessagesTypeAdapter.validate_python(waiting["messages"])
            messages = [*_before(turn, waiting["since"]), *begun]
            results = _results(turn.message, waiting)
            if results is None:
                asked = _again(turn)
                yield Checkpoint({**waiting, "asked": asked.message_id})
                yield AskInput(asked)
                return
            options["deferred_tool_results"] = results
        run = ModelRun(
            self._agent,
            messages,
            Events(artifact_tool=ARTIFACT_TOOL, artifact_id=artifact_ids(turn), hidden=self._asking),
            incoming=turn,
            # The library leaves a system prompt out where there is a history.
            capabilities=[ReinjectSystemPrompt()],
            **options,
        )
        async with aclosing(run.changes()) as changes:
            async for change in changes:
                yield change
        if isinstance(run.output, DeferredToolRequests):
            said = [*(waiting["messages"] if waiting else ()), *_dumped(run.new_messages)]
            since = waiting["since"] if waiting else turn.message.message_id
            asked = _question(turn, run.output)
            yield _checkpoint(asked, since, said, run.output)
            yield AskInput(asked)
        elif not isinstance(run.output, str):
            yield Complete(data_message(run.output))


def _external(agent: AbstractAgent[Any, Any]) -> list[str]:
    """Return the names of the tools with results from outside."""
    names: list[str] = []

    def look(toolset: AbstractToolset[Any]) -> None:
        if isinstance(toolset, ExternalToolset):
            names.extend(tool.name for tool in toolset.tool_defs)

    for toolset in agent.toolsets:
        toolset.apply(look)
    return names


def _waiting(turn: Turn) -> dict[str, Any] | None:
    """Return the run that waits for the message of a turn: if that answers the task's last question."""
    found: dict[str, Any] = turn.checkpoint or {}
    own = [message.message_id for message in turn.history if message.task_id == turn.task_id]
    return found if own and own[-1] == found.get("asked") else None


def _before(turn: Turn, since: str) -> list[ModelMessage]:
    """Return the conversation up to the message that began the run which waits, and that message."""
    ids = [message.message_id for message in turn.history]
    return conversation(turn.history[: ids.index(since) + 1 if since in ids else 0], tools=True)


def _dumped(messages: list[ModelMessage]) -> list[Any]:
    dumped: list[Any] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return dumped


def _question(turn: Turn, requests: DeferredToolRequests) -> Message:
    """Return a message that asks for the missing results of the calls: in words, and as data for programs."""
    calls = [*requests.calls, *requests.approvals]
    lines: list[str] = []
    data: list[Any] = []
    for call in calls:
        arguments = call.args_as_dict()
        approval = call in requests.approvals
        asked = arguments.get("question")
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        told = f"May {call.tool_name}({shown}) be called?" if approval else f"What is {call.tool_name}({shown})?"
        lines.append(str(asked) if isinstance(asked, str) and not approval else told)
        kind = "approval" if approval else "result"
        data.append({"id": call.tool_call_id, "name": call.tool_name, "args": arguments, "kind": kind})
    return data_message({"calls": data}, Part(text=storable("\n".join(lines))), message_id=_asked_id(turn))


def _checkpoint(asked: Message, since: str, said: list[Any], requests: DeferredToolRequests) -> Checkpoint:
    data = {
        "asked": asked.message_id,
        "since": since,
        "messages": said,
        "calls": [call.tool_call_id for call in requests.calls],
        "approvals": [call.tool_call_id for call in requests.approvals],
    }
    try:
        return Checkpoint(data)
    except ValueError as error:
        raise AgentError("The run of the agent is too large to wait for an answer.") from error


def _again(turn: Turn) -> Message:
    """Return the question once more, after an unclear answer."""
    asked = last_question(turn) or Message(parts=[Part(text="Please answer with yes or no.")])
    asked.message_id = _asked_id(turn)
    return asked


def _asked_id(turn: Turn) -> str:
    return f"{turn.invocation_id}-{turn.fence}-asked"


def _results(message: Message, waiting: dict[str, Any]) -> DeferredToolResults | None:
    """Return the user's answer: a data part with values by call id, or one answer for all calls. None if it is unclear
    whether a call is allowed."""
    data: list[Any] = [to_json(part.data) for part in message.parts if part.HasField("data")]
    text = "\n".join(part.text for part in message.parts if part.HasField("text"))
    ids = {*waiting["calls"], *waiting["approvals"]}
    given = {name: value for one in data for name, value in members(one).items() if name in ids}
    whole: Any = data[0] if len(data) == 1 and not given else text
    approvals = {id_: _approval(given.get(id_, whole)) for id_ in waiting["approvals"]}
    if None in approvals.values():
        return None
    calls = {id_: given.get(id_, whole) for id_ in waiting["calls"]}
    return DeferredToolResults(calls=calls, approvals={id_: one for id_, one in approvals.items() if one is not None})


def _approval(given: Any) -> Literal[True] | ToolDenied | None:
    """Return whether an answer allows a call, or the denial with its reason; None if it is unclear."""
    allowed = decision(given)
    if allowed is None or allowed:
        return allowed
    why = reason(given)
    return ToolDenied(why) if why else ToolDenied()
