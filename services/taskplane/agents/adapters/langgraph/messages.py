"""Conversion of a graph's stream to changes, and of a conversation to messages of a graph."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage

from taskplane.agents.agent import Change, Message, Say, Text, ToolCall, ToolResult, Usage, text_of
from taskplane.api.a2a.v1.a2a_pb2 import ROLE_USER
from taskplane.runtime.json_values import to_json

MESSAGES: Final = "messages"
"""The key of the messages in the state of a graph, as is usual there."""


class GraphMessages:
    """The messages of one run. One text grows at a time; the text of a second model is shown afterwards."""

    def __init__(self, *known: Any) -> None:
        """`known`: states whose messages are not shown again: the state before the run, and the input of the graph."""
        self._shown = {_name(message) for state in known for message in _messages_in(state)}
        # Pieces of the messages that have not ended, by id, in the order in which they began; the first one is shown.
        self._growing: dict[str, list[Any]] = {}
        self._ended: set[str] = set()
        # The open text: message id and text; and earlier texts.
        self._open = ""
        self._words: list[str] = []
        self._said: set[str] = set()

    def of_model(self, message: Any) -> Iterator[Change]:
        """Yield the changes that a message, or a piece of one, is shown as."""
        if isinstance(message, AIMessageChunk):
            yield from self._piece(message)
        elif isinstance(message, AIMessage):
            if (name := _name(message)) not in self._shown:
                self._shown.add(name)
                yield from self.answer(str(message.text))
                yield from self._made(message)
        elif isinstance(message, ToolMessage) and (name := _name(message)) not in self._shown:
            self._shown.add(name)
            self._close()
            key = "error" if message.status == "error" else "result"
            yield ToolResult(message.tool_call_id, message.name or "", {key: message.content})

    def of_node(self, written: Any) -> Iterator[Change]:
        """Yield the change that a node wrote to the stream; a str is a text that grows, and others are left out."""
        if isinstance(written, str):
            yield from self._text("", written)
        elif isinstance(written, Text):
            yield from self._text("", written.delta)
        elif isinstance(written, Change):
            if isinstance(written, (Say, ToolCall, ToolResult)):
                self._close()
            yield written

    def answer(self, words: str) -> Iterator[Change]:
        """Yield a whole text, unless it was just shown: nodes return the texts that they have streamed."""
        if words.strip() != "".join(self._words).strip():
            yield from self._text(words, words)

    def rest(self, state: Any) -> Iterator[Change]:
        """Yield the rest of messages that did not end, and the messages in the state of the graph that it did not
        stream, as messages in other forms are."""
        while self._growing:
            yield from self._end(next(iter(self._growing)))
        found: list[BaseMessage] = []
        for message in _messages_in(state):
            found = [] if isinstance(message, HumanMessage) else [*found, message]
        for message in found:
            if str(message.text).strip() not in self._said:
                yield from self.of_model(message)

    def _piece(self, piece: AIMessageChunk) -> Iterator[Change]:
        name = str(piece.id)
        first = next(iter(self._growing), name)
        self._growing.setdefault(name, []).append(piece)
        if name == first:
            yield from self._text(name, str(piece.text))
        if piece.chunk_position == "last":
            self._ended.add(name)
            if name == first:
                yield from self._end(name)

    def _end(self, name: str) -> Iterator[Change]:
        """End the shown message, and show the beginning of the next one."""
        pieces = self._growing.pop(name)
        self._ended.discard(name)
        whole = pieces[0] + pieces[1:]
        self._shown.add(_name(whole))
        yield from self._made(whole)
        if self._growing:
            following, found = next(iter(self._growing.items()))
            yield from self._text(following, "".join(str(piece.text) for piece in found))
            if following in self._ended:
                yield from self._end(following)

    def _text(self, name: str, words: str) -> Iterator[Change]:
        if not words:
            return
        if self._words and name != self._open:
            yield Say("".join(self._words))
            self._close()
        self._open = name
        self._words.append(words)
        yield Text(words)

    def _close(self) -> None:
        """Note that the open text has ended."""
        if self._words:
            self._said.add("".join(self._words).strip())
            self._words.clear()

    def _made(self, message: Any) -> Iterator[Change]:
        """Yield the contents of a message beside its text."""
        for call in message.tool_calls:
            self._close()
            yield ToolCall(call["id"] or "", call["name"], call["args"])
        if used := message.usage_metadata:
            yield Usage({"requests": 1, **{name: used[name] for name in ("input_tokens", "output_tokens")}})


def _name(message: BaseMessage) -> tuple[str, ...]:
    """Return a key that is different for each message. An id alone is no such key: some models and nodes use one id for
    all messages."""
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    return str(message.id), str(message.text), *(str(call["id"]) for call in calls)


def conversation(messages: Sequence[Message]) -> list[BaseMessage]:
    """Return the texts of a conversation as messages of a graph; data of the user as JSON."""
    found: list[BaseMessage] = []
    for message in messages:
        if message.role == ROLE_USER:
            data = [json.dumps(to_json(part.data)) for part in message.parts if part.HasField("data")]
            found.append(HumanMessage("\n".join([*filter(None, [text_of(message)]), *data]), id=message.message_id))
        elif words := text_of(message):
            found.append(AIMessage(words, id=message.message_id))
    return found


def last_answer(state: Any) -> str | None:
    """Return the text of the last message of a state, if a model wrote this message."""
    messages = _messages_in(state)
    return (str(messages[-1].text) or None) if messages and isinstance(messages[-1], AIMessage) else None


def _messages_in(state: Any) -> Sequence[BaseMessage]:
    found: list[Any] = (state.get(MESSAGES) or []) if hasattr(state, "get") else []
    return [message for message in found if isinstance(message, BaseMessage)]
