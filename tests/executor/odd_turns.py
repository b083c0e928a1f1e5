"""Agents that use the whole port, and break its rules, by the text of the message: for comparisons of planes."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from taskplane.agents.agent import (
    AgentCard,
    AgentError,
    ArtifactChunk,
    AskAuth,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Fail,
    MakeTask,
    Message,
    Part,
    Policy,
    Reject,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    Working,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

MIB: Final = 1024 * 1024


def _nested(depth: int) -> Any:
    data: Any = 1
    for _ in range(depth):
        data = [data]
    return data


def _deep_value(depth: int) -> Value:
    value = Value(number_value=1)
    for _ in range(depth):
        outer = Value()
        outer.list_value.values.add().CopyFrom(value)
        value = outer
    return value


def _message(text: str, message_id: str = "", **fields: Any) -> Message:
    return Message(message_id=message_id, parts=[Part(text=text)], **fields)


def _marked(text: str, metadata: dict[str, Any]) -> Message:
    return ParseDict({"parts": [{"text": text}], "metadata": metadata}, Message())


# The changes of a turn that needs nothing but them.
CHANGES: Final[dict[str, Callable[[], list[Change]]]] = {
    "nothing": list,
    "empty complete": lambda: [Complete()],
    "empty text": lambda: [Text(""), Say(""), Complete("")],
    "text that ends by itself": lambda: [Text("one "), Text("two"), Say("three"), Text("four"), Complete()],
    "text that a say ends": lambda: [Text("as far as"), Say("as far as"), Complete("done")],
    "text that a question ends": lambda: [Text("Which"), AskInput("Which one?")],
    "text beside a failure": lambda: [Text("as far as"), Fail("It broke.")],
    "surrogate halves": lambda: [Text("a\ud83d"), Text("\ude00b"), Say("c\ud83d"), Complete("\0d")],
    "text of 4 MiB": lambda: [Text("x" * 4 * MIB), Complete("done")],
    "say of 4 MiB": lambda: [Say("x" * 4 * MIB), Complete("done")],
    "failure of 4 MiB": lambda: [Fail("x" * 4 * MIB)],
    "no parts": lambda: [Say(Message()), Complete("done")],
    "an empty part": lambda: [Say(Message(parts=[Part()])), Complete("done")],
    "a complete without parts": lambda: [Complete(Message())],
    "a question without parts": lambda: [AskInput(Message())],
    "a blank failure": lambda: [Fail(" ")],
    "a blank rejection": lambda: [Reject("")],
    "rejection": lambda: [Say("No."), Reject(_message("Not for me."))],
    "failure": lambda: [Say("Well."), Fail("It broke.")],
    "failure with a message": lambda: [Fail(_marked("It broke.", {"key": "value"}))],
    "auth": lambda: [AskAuth("Sign in.")],
    "message id of 300": lambda: [Say(_message("one", "m" * 300)), Complete("done")],
    "message id with a line": lambda: [Say(_message("one", "m\nm")), Complete("done")],
    "message id twice in a row": lambda: [Say(_message("one", "m")), Say(_message("two", "m")), Complete("done")],
    "message id twice": lambda: [
        *(Say(_message("one", "m")), Say("between"), Say(_message("two", "m"))),
        Complete(_message("three", "m")),
    ],
    "message id of the user": lambda: [Say(_message("one", "user-1")), Complete("done")],
    "message of another task": lambda: [
        Say(_message("one", task_id="other", context_id="another", role=a2a.ROLE_USER)),
        Complete("done"),
    ],
    "marks of the plane": lambda: [
        Say(_marked("one", {"kagent_adk_partial": True, "taskplane.dev/time": "never"})),
        Say(_marked("two", {"kind": "status-message"})),
        Say(_marked("three", {"adk_partial": True, "kagent_invocation_id": "mine"})),
        Complete("done"),
    ],
    "deep message data": lambda: [Say(Message(parts=[Part(data=_deep_value(150))])), Complete("done")],
    "deep message metadata": lambda: [Say(_marked("one", {"key": _nested(90)})), Complete("done")],
    "artifact id of 255": lambda: [ArtifactChunk("a" * 255, text="one")],
    "artifact id of 300": lambda: [ArtifactChunk("a" * 300, text="one")],
    "artifact id with a line": lambda: [ArtifactChunk("a\na", text="one")],
    "artifact id with a zero": lambda: [ArtifactChunk("a\0a", text="one")],
    "artifact that grows": lambda: [
        ArtifactChunk("a", text="one ", name="A", description="first", metadata={"k": 1}, extensions=["urn:x"]),
        ArtifactChunk(
            "a", text="two", append=True, mergeable=False, metadata={"l": [2]}, extensions=["urn:x", "urn:y"]
        ),
        ArtifactChunk("a", raw=b"\0\1", append=True, filename="a.bin", media_type="application/octet-stream"),
        ArtifactChunk("a", text="three", append=True, mergeable=False, name="B", last=True),
        ArtifactChunk("a", text="four", append=True, mergeable=False),
    ],
    "artifact that is replaced": lambda: [
        ArtifactChunk("a", text="one", name="A", metadata={"k": 1}, last=True),
        Say("between"),
        ArtifactChunk("a", data={"two": [2, None, True]}),
    ],
    "artifact of each kind": lambda: [
        ArtifactChunk("url", url="https://example.com/a", media_type="text/html"),
        ArtifactChunk("parts", parts=[Part(text="one"), Part(raw=b"two"), Part(data=_deep_value(3))]),
        ArtifactChunk("empty", text=""),
        ArtifactChunk("zero", text="a\0b", name="\0", description="\0"),
    ],
    "append to nothing": lambda: [ArtifactChunk("a", text="one", append=True)],
    "append to another": lambda: [ArtifactChunk("a", text="one"), ArtifactChunk("b", text="two", append=True)],
    "chunk of 2 MiB": lambda: [ArtifactChunk("a", text="x" * 2 * MIB)],
    "deep artifact": lambda: [ArtifactChunk("a", data=_nested(150), metadata={"key": _nested(150)})],
    "deep artifact part": lambda: [ArtifactChunk("a", parts=[Part(data=_deep_value(150))])],
    "odd numbers": lambda: [ArtifactChunk("a", data=[10**400, 2**60, math.nan, math.inf, 1e308, -0.0])],
    "tools": lambda: [
        *(ToolCall("1", "look", {"at": "\ud800"}), ToolResult("1", "look", [1, None]), ToolResult("2", "none", None)),
        *(ToolCall("3", "deep", {"data": _nested(150)}), Complete("done")),
    ],
    "working": lambda: [
        Working(),
        Working("one"),
        Working("one"),
        Working("\0two"),
        Working("x" * 300),
        Complete("done"),
    ],
    "usage": lambda: [Usage({"a": 1, "b": 0.5}), Usage({"a": 2}), Complete("done")],
    "usage and a question": lambda: [Usage({"a": 1}), Checkpoint({"page": 1}), AskInput("More?")],
    "usage of 300": lambda: [Usage({"a" * 300: 1}), Complete("done")],
    "usage of 101": lambda: [Usage({f"a{number}": 1 for number in range(101)}), Complete("done")],
    "usage that overflows": lambda: [Usage({"a": 1e308}), Usage({"a": 1e308}), Complete("done")],
    "checkpoints": lambda: [Checkpoint({"page": 1}), Say("one"), Checkpoint([2, "\0"]), Complete("done")],
}


async def _state(turn: Turn) -> AsyncIterator[Change]:
    await turn.session.append({"id": "one", "n": 1, "actions": {"state_delta": {"a": 1, "user:b": [2], "temp:c": 3}}})
    await turn.session.append({"id": "one", "n": 1, "actions": {"state_delta": {"a": 1, "user:b": [2], "temp:c": 3}}})
    await turn.session.update_state(**{"a": None, "app:d": {"e": 10**400}, "f": "\0", "user:g": _nested(150)})
    yield Say(
        f"{[event.get('n') for event in await turn.session.events()]} {sorted((await turn.session.state()).items())}"
    )
    for event in (
        {"id": "one", "n": 2},
        {"id": ""},
        {"n": object()},
        {"id": "x" * 300},
        {"actions": {"state_delta": 1}},
    ):
        try:
            await turn.session.append(event)
        except Exception as error:  # noqa: BLE001 - which one it is, is told
            yield Say(f"{type(error).__name__} {getattr(error, 'reason', '')}")
    yield Say(
        f"{[event.get('n') for event in await turn.session.events()]} {sorted((await turn.session.state()).items())}"
    )


async def _others(turn: Turn) -> AsyncIterator[Change]:
    yield ArtifactChunk("own", text="mine")
    yield Say(f"{await turn.referenced()} {await turn.session.artifact('none', 'own')} {await turn.ended()}")
    yield Say(f"{turn.attempt} {turn.fence} {turn.checkpoint} {dict(turn.metadata)} {turn.waits} {len(turn.history)}")


async def _pauses(turn: Turn) -> AsyncIterator[Change]:
    said = [message.parts[0].text for message in turn.history]
    number = sum(text.startswith("pauses") for text in said) + 1
    yield Usage({"turns": 1})
    yield Checkpoint({"turn": len(said)})
    yield Text(f"{turn.attempt} {turn.checkpoint} {said} ")
    yield ArtifactChunk("log", text=f"{turn.text};", append=len(said) > 0)
    yield AskAuth("Sign in.") if turn.text == "auth" else Complete() if turn.text == "end" else AskInput(f"{number}?")


async def _raises(turn: Turn) -> AsyncIterator[Change]:
    yield Text("as far as")
    raise LookupError("secret")


async def _raises_publicly(turn: Turn) -> AsyncIterator[Change]:
    yield Say("as far as")
    raise AgentError("The book is gone.")


async def _yields_text(turn: Turn) -> AsyncIterator[Change]:
    yield "a text"  # type: ignore[misc]


async def _bad_change(turn: Turn) -> AsyncIterator[Change]:
    yield Checkpoint("x" * 100_000)


async def _says_bytes(turn: Turn) -> AsyncIterator[Change]:
    yield Say(b"bytes")  # type: ignore[arg-type]


async def _waits(turn: Turn) -> AsyncIterator[Change]:
    yield Say("begun")
    yield Usage({"a": 1})
    yield Text("as far as")
    await asyncio.Event().wait()


# The changes of a turn that needs more than them.
SCRIPTS: Final[dict[str, Callable[[Turn], AsyncIterator[Change]]]] = {
    "others": _others,
    "pauses": _pauses,
    "auth": _pauses,
    "end": _pauses,
    "raises": _raises,
    "raises publicly": _raises_publicly,
    "yields a text": _yields_text,
    "bad change": _bad_change,
    "says bytes": _says_bytes,
}


class Odd:
    """Does the case that the text of the message names."""

    card = AgentCard(name="odd", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        if turn.text in CHANGES:
            for change in CHANGES[turn.text]():
                yield change
        else:
            async for change in {**SCRIPTS, "state": _state, "waits": _waits}[turn.text](turn):
                yield change


class OddThread:
    """The same in a thread, with a policy."""

    card = AgentCard(name="thread", version="1")

    def policy(self, turn: Turn) -> Policy:
        match turn.text:
            case "policy raises":
                raise LookupError("secret")
            case "policy is none":
                return None  # type: ignore[return-value]
            case _:
                return Policy(on_orphan="resume")

    def run(self, turn: Turn) -> Iterator[Change]:
        yield from CHANGES[turn.text]()


class OddRouter(Odd):
    """Answers a message that starts with "direct", or continues itself."""

    card = AgentCard(name="router", version="1")

    async def route(self, turn: Turn) -> "Message | str | MakeTask | AsyncIterator[Change] | None":
        match turn.text:
            case "direct":
                return f"at once, after {len(turn.history)}"
            case "direct with a zero":
                return "a\0b\ud800"
            case "direct with an id":
                return _message("at once", "m" * 300)
            case "direct without parts":
                return Message()
            case "direct of 4 MiB":
                return "x" * 4 * MIB
            case "direct raises":
                raise LookupError("secret")
            case "direct of another type":
                return 7  # type: ignore[return-value]
            case "goes on":
                return self._goes_on()
            case _:
                return MakeTask("it is long")

    async def _goes_on(self) -> AsyncIterator[Change]:
        yield Text("begun while ")
        yield Complete("begun while deciding")

    async def make_artifact(self, turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("made", text=f"of {len(turn.history)}")
