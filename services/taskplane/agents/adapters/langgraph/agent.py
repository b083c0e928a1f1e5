"""Graphs of LangGraph as agents: messages as they are streamed, interrupts as questions, threads as conversations."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command

from taskplane.agents.adapters.approvals import decision, last_question, members, reason
from taskplane.agents.adapters.cards import card
from taskplane.agents.adapters.langgraph.messages import MESSAGES, GraphMessages, conversation, last_answer
from taskplane.agents.adapters.langgraph.threads import ResumePoint, Thread, invocation_in, invocation_of
from taskplane.agents.adapters.refusals import bad_agent
from taskplane.agents.agent import (
    Agent,
    AgentError,
    AskAuth,
    AskInput,
    Change,
    Complete,
    Fail,
    Message,
    Policy,
    Reject,
    Turn,
)
from taskplane.runtime.json_values import to_json
from taskplane.runtime.plain_json import plain
from taskplane.runtime.storable import storable
from taskplane.runtime.struct_values import mark_converted, to_value

RECURSION_LIMIT: Final = 100
"""The maximum number of steps of a run, if the graph sets no limit."""
INTERRUPT: Final = "interrupt_id"
"""The key under which the metadata of a part of a question has the id of the interrupt."""
_MODES: Final = ["messages", "custom", "updates", "values"]
_FINAL: Final = (AskAuth, AskInput, Complete, Fail, Reject)


def adapt(found: Any, name: str) -> Agent:
    """Return the agent that runs a graph, compiled or not, or an entrypoint.

    Invalid `BAD_AGENT`: the input of the graph has several keys or none, and none of them is `messages`.
    """
    graph = found.compile() if _is_builder(found) else found
    return GraphAgent(graph, name, _input_key(graph, name), _output_key(graph))


def _is_builder(found: Any) -> bool:
    """Return whether a graph must be compiled first."""
    return isinstance(found, StateGraph)


def _input_key(graph: Any, name: str) -> str:
    """Return the key of the input that takes the message, or "" if the input is the text itself."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return ""
    keys = list(builder.schemas[builder.input_schema])
    if MESSAGES in keys:
        return MESSAGES
    if len(keys) != 1:
        wanted = f"needs the keys {', '.join(keys)}" if keys else "takes no input"
        problem = f"its graph {wanted}, but a message gives one text"
        raise bad_agent(name, problem, "StateGraph(State, input_schema=...) with `messages`, or with one key")
    return str(keys[0])


def _output_key(graph: Any) -> str | None:
    """Return the key of the output that has the answer. "": the output itself. None: there is no such key."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return ""
    keys = list(builder.schemas[builder.output_schema])
    return str(keys[0]) if len(keys) == 1 else None


class GraphAgent:
    """A graph as an agent."""

    def __init__(self, graph: Any, name: str, input_key: str, output_key: str | None) -> None:
        self.card = card(name, f"Runs the graph {name}.", input_modes=("text/plain", "application/json"))
        self._name = name
        self._graph = graph
        self._input_key = input_key
        self._output_key = output_key
        self._keeps_threads = isinstance(graph.checkpointer, BaseCheckpointSaver)

    def policy(self, turn: Turn) -> Policy:
        """Return the policy. Turns of a thread run one after the other: each continues from its predecessor."""
        return Policy(strategy="queue") if self._keeps_threads else Policy()

    async def run(self, turn: Turn) -> AsyncGenerator[Change]:
        """Run the graph with the message, resume it with an answer, or continue a lost attempt."""
        continues_lost_attempt = turn.attempt > 1 and self.policy(turn).on_orphan == "resume"
        if self._keeps_threads:
            point = await Thread(self._graph, self._name, turn).resume_point(turn.history, own=continues_lost_attempt)
        else:
            point = ResumePoint({"configurable": {}}, None, "")
        graph_input: Any
        if continues_lost_attempt and point.invocation == turn.invocation_id:
            if point.snapshot.interrupts:
                yield _question(point.snapshot.interrupts)
                return
            if not point.snapshot.next:
                yield Complete(last_answer(point.snapshot.values))
                return
            graph_input = None
        elif asked := _asked(turn):
            answers = await self._answers(turn, point, asked)
            if answers is None:
                yield AskInput(last_question(turn) or "")
                return
            graph_input = Command(resume=answers)
        else:
            graph_input = self._input(turn, point)
        async with aclosing(self._stream(turn, point, graph_input)) as changes:
            async for change in changes:
                yield change

    def _input(self, turn: Turn, point: ResumePoint) -> Any:
        if self._input_key == MESSAGES:
            return {MESSAGES: conversation([*point.unknown(turn), turn.message])}
        return {self._input_key: turn.text} if self._input_key else turn.text

    async def _answers(self, turn: Turn, point: ResumePoint, asked: list[str]) -> dict[str, Any] | None:
        """Return the answers of a message by interrupt id.

        None: a question asks for approval of actions, and its answer neither allows nor refuses them. AgentError: no
        interrupt of the question is open.
        """
        waiting: dict[str, Any] = {}
        if point.snapshot is not None:
            # Read the state at the checkpoint. An earlier attempt at this turn may have answered the interrupts
            # already, and only this state still lists them.
            snapshot = await self._graph.aget_state(point.snapshot.config)
            interrupted = {interrupt.id: interrupt.value for interrupt in snapshot.interrupts}
            waiting = {name: interrupted[name] for name in asked if name in interrupted}
        if not waiting:
            raise AgentError(
                "The question of this task is no longer open: the conversation continued without an answer, or the"
                " state of the agent was lost."
            )
        answer = _value(turn.message)
        by_id: dict[str, Any] = {name: answer[name] for name in waiting if isinstance(answer, dict) and name in answer}
        answers = {
            name: _decided(waiting[name], each) for name, each in (by_id or {next(iter(waiting)): answer}).items()
        }
        return None if None in answers.values() else answers

    async def _stream(self, turn: Turn, point: ResumePoint, graph_input: Any) -> AsyncGenerator[Change]:
        messages = GraphMessages(point.snapshot.values if point.snapshot is not None else None, graph_input)
        interrupts: dict[str, Any] = {}
        state: Any = None
        config = self._config(turn, point)
        stream = self._graph.astream(graph_input, config, stream_mode=_MODES, subgraphs=True)
        try:
            async with aclosing(stream):
                async for inside, mode, data in stream:
                    if mode in ("updates", "values"):
                        # The outer graph repeats the interrupts and values of its subgraphs.
                        if not inside and mode == "values":
                            state = data
                        elif not inside and "__interrupt__" in data:
                            asked = data["__interrupt__"]
                            _check_asked(asked)
                            interrupts.update({one.id: one for one in asked})
                        continue
                    for change in messages.of_model(data[0]) if mode == "messages" else messages.of_node(data):
                        yield change
                        if isinstance(change, _FINAL):
                            return
        except GraphRecursionError as error:
            raise AgentError("The agent was stopped because it exceeded its number of steps.") from error
        for change in messages.rest(state):
            yield change
        if not interrupts:
            for change in messages.answer(self._output(state)):
                yield change
            return
        if not self._keeps_threads:
            raise AgentError(
                "The agent asked a question, but its graph has no checkpointer, so it could not continue with the"
                " answer: compile the graph with one."
            )
        yield _question(tuple(interrupts.values()))

    def _output(self, state: Any) -> str:
        output = state
        if self._output_key and isinstance(state, Mapping):
            output = cast("Mapping[str, Any]", state).get(self._output_key)
        return output if isinstance(output, str) and self._output_key is not None else ""

    def _config(self, turn: Turn, point: ResumePoint) -> dict[str, Any]:
        config: dict[str, Any] = {
            "configurable": {**point.config["configurable"], "turn": turn},
            "metadata": invocation_of(turn),
        }
        own: dict[str, Any] = self._graph.config or {}
        if "recursion_limit" not in own:
            config["recursion_limit"] = RECURSION_LIMIT
        return config


def _check_asked(interrupts: tuple[Any, ...]) -> None:
    if not interrupts:
        raise AgentError("The agent stopped at a breakpoint of its graph, which nobody can answer: ask by interrupt().")


def _asked(turn: Turn) -> list[str]:
    """Return the ids of the interrupts that the message answers: those in the agent's last message in this task."""
    for message in reversed(turn.task.history if turn.task is not None else ()):
        # Skip messages of a lost attempt at the current turn.
        if message.role != turn.message.role and invocation_in(message) != turn.invocation_id:
            parts = [part.metadata.fields for part in message.parts]
            return [fields[INTERRUPT].string_value for fields in parts if INTERRUPT in fields]
    return []


def _decided(asked: Any, answer: Any) -> Any:
    """Return an answer in the form that the graph expects; None if it must allow or refuse actions and does neither.

    A question of langchain's HumanInTheLoopMiddleware has `action_requests`, an answer to it has `decisions`.
    """
    actions: Any = members(asked).get("action_requests")
    if not isinstance(actions, list) or "decisions" in members(answer):
        return answer
    allowed = decision(answer)
    if allowed is None:
        return None
    why = reason(answer)
    one = {"type": "approve"} if allowed else {"type": "reject", **({"message": why} if why else {})}
    return {"decisions": [one for _ in actions]}  # pyright: ignore[reportUnknownVariableType]


def _value(message: Message) -> Any:
    """Return the content of an answer: the first data part, or else the text."""
    for part in message.parts:
        if part.HasField("data"):
            data: Any = to_json(part.data)
            return data
    return "\n".join(part.text for part in message.parts if part.HasField("text"))


def _question(interrupts: tuple[Any, ...]) -> AskInput:
    """Return a question with one part for each interrupt: text if its value is a str, else data."""
    message = Message()
    for index, interrupt in enumerate(interrupts):
        part = message.parts.add()
        if isinstance(interrupt.value, str):
            part.text = storable(interrupt.value)
        else:
            value, converted = to_value(plain(interrupt.value), f"parts[{index}].data")
            part.data.CopyFrom(value)
            mark_converted(message.metadata, converted)
        part.metadata.update({INTERRUPT: interrupt.id})
    return AskInput(message)
