"""Graphs of LangGraph as agents: messages as they are streamed, interrupts as questions, threads as conversations."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command

from taskplane.executor.adapters.cards import card, first_paragraph
from taskplane.executor.adapters.graph_messages import MESSAGES, GraphMessages, conversation, last_answer
from taskplane.executor.adapters.graph_threads import Place, Thread, invocation_of
from taskplane.executor.adapters.refusals import bad_agent
from taskplane.executor.agent import (
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
from taskplane.executor.changes import value_of

RECURSION_LIMIT: Final = 100
"""Steps of a run of a graph that has no limit of its own."""
INTERRUPT: Final = "interrupt_id"
"""Metadata of the parts of a question: the interrupt that each is of."""
_FINAL: Final = (AskAuth, AskInput, Complete, Fail, Reject)


def adapt(found: Any, name: str) -> Agent:
    """Return the agent that runs a graph, compiled or not, or an entrypoint.

    Invalid `BAD_AGENT`: its input is neither messages nor one value.
    """
    graph = found.compile() if _is_builder(found) else found
    return GraphAgent(graph, name, _input_key(graph, name))


def _is_builder(found: Any) -> bool:
    """Return whether a graph is to be compiled."""
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
        problem = f"its graph takes {', '.join(keys) or 'nothing'}, and a message is one text"
        raise bad_agent(name, problem, "StateGraph(State, input_schema=...) with `messages`, or with one key")
    return str(keys[0])


class GraphAgent:
    """A graph as an agent."""

    def __init__(self, graph: Any, name: str, input_key: str) -> None:
        described = first_paragraph(graph) if type(graph).__doc__ != graph.__doc__ else ""
        self.card = card(name, described or f"Runs the graph {name}.", input_modes=("text/plain", "application/json"))
        self._name = name
        self._graph = graph
        self._input_key = input_key
        self._keeps_threads = isinstance(graph.checkpointer, BaseCheckpointSaver)

    def policy(self, turn: Turn) -> Policy:
        """Return the policy: the turns of a thread run one after the other, since each goes on from the one before."""
        return Policy(strategy="queue") if self._keeps_threads else Policy()

    async def run(self, turn: Turn) -> AsyncGenerator[Change]:
        """Run the graph with the message, or go on with it from an interrupt."""
        goes_on = turn.attempt > 1 and self.policy(turn).on_orphan == "resume"
        if self._keeps_threads:
            place = await Thread(self._graph, self._name, turn).place(turn.history, own=goes_on)
        else:
            place = Place({"configurable": {}}, None, "")
        if goes_on and place.invocation == turn.invocation_id:
            changes = self._go_on(turn, place)
        elif asked := _asked(turn):
            changes = self._stream(turn, place, Command(resume=await self._answers(turn, place, asked)))
        else:
            changes = self._stream(turn, place, self._input(turn, place))
        async with aclosing(changes):
            async for change in changes:
                yield change

    def _input(self, turn: Turn, place: Place) -> Any:
        if self._input_key == MESSAGES:
            return {MESSAGES: conversation([*place.unknown(turn), turn.message])}
        return {self._input_key: turn.text} if self._input_key else turn.text

    async def _answers(self, turn: Turn, place: Place, asked: list[str]) -> dict[str, Any]:
        """Return the answers of a message to the interrupts of a question, by id. AgentError: they are not open."""
        waiting: list[str] = []
        if place.snapshot is not None:
            # As of its checkpoint: also those that an earlier attempt of this run was given the answer to.
            snapshot = await self._graph.aget_state(place.snapshot.config)
            waiting = [interrupt.id for interrupt in snapshot.interrupts if interrupt.id in asked]
        if not waiting:
            raise AgentError(
                "The question of this task is not open any more: the conversation went on without its answer, or the"
                " state of the agent was lost."
            )
        given = _value(turn.message)
        by_id: dict[str, Any] = {name: given[name] for name in waiting if isinstance(given, dict) and name in given}
        return by_id or {waiting[0]: given}

    async def _go_on(self, turn: Turn, place: Place) -> AsyncGenerator[Change]:
        """Go on from the last step of an attempt that was lost."""
        assert place.snapshot is not None
        if place.snapshot.interrupts:
            yield _question(place.snapshot.interrupts)
        elif place.snapshot.next:
            async for change in self._stream(turn, place, None):
                yield change
        else:
            yield Complete(last_answer(place.snapshot.values))

    async def _stream(self, turn: Turn, place: Place, given: Any) -> AsyncGenerator[Change]:
        messages = GraphMessages(place.snapshot.values if place.snapshot is not None else None)
        interrupts: dict[str, Any] = {}
        stream = self._graph.astream(given, self._config(turn, place), stream_mode=["messages", "custom", "updates"])
        try:
            async with aclosing(stream):
                async for mode, data in stream:
                    if mode == "updates":
                        interrupts.update({one.id: one for one in data.get("__interrupt__", ())})
                        continue
                    for change in messages.of_model(data[0]) if mode == "messages" else messages.of_node(data):
                        yield change
                        if isinstance(change, _FINAL):
                            return
        except GraphRecursionError as error:
            raise AgentError("The agent was stopped because it did not come to an end.") from error
        for change in messages.rest():
            yield change
        if not interrupts:
            return
        if not self._keeps_threads:
            raise AgentError(
                "The agent wants to ask something and could not go on from an answer, since its graph has no"
                " checkpointer: compile it with one."
            )
        yield _question(tuple(interrupts.values()))

    def _config(self, turn: Turn, place: Place) -> dict[str, Any]:
        config: dict[str, Any] = {
            "configurable": {**place.config["configurable"], "turn": turn},
            "metadata": invocation_of(turn),
        }
        if not (self._graph.config or {}).get("recursion_limit"):
            config["recursion_limit"] = RECURSION_LIMIT
        return config


def _asked(turn: Turn) -> list[str]:
    """Return the interrupts that the message answers: those of the last message of the agent in this task."""
    for message in reversed(turn.task.history if turn.task is not None else ()):
        if message.role != turn.message.role:
            parts = [part.metadata.fields for part in message.parts]
            return [fields[INTERRUPT].string_value for fields in parts if INTERRUPT in fields]
    return []


def _value(message: Message) -> Any:
    """Return the content of an answer: its data, or its text."""
    for part in message.parts:
        if part.HasField("data"):
            data: Any = MessageToDict(part.data)
            return data
    return "\n".join(part.text for part in message.parts if part.HasField("text"))


def _question(interrupts: tuple[Any, ...]) -> AskInput:
    """Return the question that interrupts ask: a part for each, a text or data as its value is."""
    message = Message()
    for interrupt in interrupts:
        part = message.parts.add()
        if isinstance(interrupt.value, str):
            part.text = interrupt.value
        else:
            part.data.CopyFrom(value_of(interrupt.value))
        part.metadata.update({INTERRUPT: interrupt.id})
    return AskInput(message)
