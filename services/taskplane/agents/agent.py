"""The port that an author of agents implements: an object with a card and a `run` that yields changes.

Nothing here does anything; everything here is public. A smallest agent:

    class Greeter:
        card = AgentCard(name="greeter", description="Greets.", version="1")

        async def run(self, turn: Turn) -> AsyncIterator[Change]:
            yield Text("Hello ")
            yield Complete(f"Hello {turn.text}")
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from taskplane.agents.errors import AgentError, NoContent, check_parts
from taskplane.agents.policy import Policy
from taskplane.agents.turn_session import TurnCalls, TurnSession
from taskplane.api.a2a.v1.a2a_pb2 import AgentCard, Artifact, Message, Part, Task
from taskplane.runtime.principal import Principal
from taskplane.runtime.storable import dumped

__all__ = [
    "Agent",
    "AgentCard",
    "AgentError",
    "Artifact",
    "ArtifactChunk",
    "ArtifactMaker",
    "AskAuth",
    "AskInput",
    "Change",
    "Checkpoint",
    "Closing",
    "Complete",
    "Extended",
    "Fail",
    "Final",
    "MakeTask",
    "Message",
    "NoContent",
    "Part",
    "Policied",
    "Policy",
    "Reject",
    "Router",
    "Say",
    "StatusText",
    "StatusWriter",
    "Task",
    "Text",
    "ToolCall",
    "ToolResult",
    "Turn",
    "TurnCalls",
    "TurnSession",
    "Usage",
    "Working",
    "text_of",
]


def text_of(message: Message) -> str:
    """Return the text parts of a message, one per line."""
    parts = message.parts
    if len(parts) == 1:
        return parts[0].text
    return "\n".join([part.text for part in parts if part.HasField("text")])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """One message of the user, and the data for its answer. Read only.

    `task_id` is the id of the task; while a Router decides, the id of the possible task. `message` has the invocation
    id of the turn in its metadata. `history` is the conversation without `message`, oldest first. `task` is the task at
    the beginning of the turn, None while a Router decides. `fence` grows with every lease of the task. `caller` is the
    user. `cancelled` is set before the run is cancelled; the run then has `cancel_grace` seconds to clean up.

    `invocation_id` is the id of the turn, the same in every attempt. Use it in idempotency keys of calls to other
    systems. `attempt` counts the runs of the task since its last pause, including this run. A run that a draining
    process released does not count. It is 0 while a Router decides.

    `metadata`, `output_modes` (accepted media types; empty: any) and `extensions` (activated URIs) belong to the
    request with `message`. `checkpoint` is the data of the task's newest Checkpoint, also from an earlier run, or None.
    If `waits` is True, a Router may be slow: the client does not stream.
    """

    task_id: str
    context_id: str
    invocation_id: str
    message: Message
    history: Sequence[Message]
    task: Task | None
    attempt: int
    fence: int
    caller: Principal
    cancelled: asyncio.Event
    calls: TurnCalls
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output_modes: Sequence[str] = ()
    extensions: Sequence[str] = ()
    checkpoint: Any = None
    cancel_grace: float = 10.0
    waits: bool = False

    @property
    def text(self) -> str:
        """Return the text parts of `message`, one per line."""
        return text_of(self.message)

    @property
    def session(self) -> TurnSession:
        """Return the session of the turn."""
        return TurnSession(self.context_id, self.calls)

    async def incoming(self) -> list[Message]:
        """Return the user's messages that arrived since the turn began or since the last call, oldest first.

        A returned message counts as read and gets no turn of its own.
        """
        return await self.calls.incoming()

    async def referenced(self) -> list[Task]:
        """Return the tasks that `message.reference_task_ids` names, in that order, with their artifacts.

        Tasks that are deleted, or of another owner, are left out.
        """
        return await self.calls.referenced()

    async def ended(self) -> bool:
        """Return whether the task has ended, for instance by a cancel.

        False if the run stops because its lease was lost or its process ends. Then `on_orphan` decides about the task:
        another run may continue it, or it fails.
        """
        return await self.calls.ended()


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")


def _check_message(name: str, value: object) -> None:
    if not isinstance(value, (str, Message)):
        raise TypeError(f"{name} must be a str or a Message, not {type(value).__name__}")


def _check_number(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")


def _check_figure(name: str, value: object) -> None:
    _check_text("Usage", name)
    _check_number(name, value, (int, float))
    try:
        name.encode()
        finite = math.isfinite(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except (UnicodeEncodeError, OverflowError):
        finite = False
    if not finite:
        raise ValueError(f"Usage must have finite numbers and names in UTF-8; {name!a} has not")


@dataclass(frozen=True, slots=True)
class Working:
    """The agent works; `text` is a progress line, shown while it is new and kept out of the conversation. TypeError:
    `text` is not a str."""

    text: str | None = None

    def __post_init__(self) -> None:
        if self.text is not None:
            _check_text("Working", self.text)


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of a growing text. Pieces that wait for the same append become one event.

    A Say or Complete with the same words ends the text and replaces it; it may add parts. Any other message also ends
    it. TypeError: `delta` is not a str.
    """

    delta: str

    def __post_init__(self) -> None:
        _check_text("Text", self.delta)


@dataclass(frozen=True, slots=True)
class Say:
    """A whole message, of parts with content; an empty text is content. The next message replaces it if it has the same
    id."""

    message: str | Message


@dataclass(frozen=True, slots=True)
class ArtifactChunk:
    """An artifact, or the next part of one, with exactly one of `text`, `data` (JSON), `raw`, `url` and `parts`.

    The first chunk of an artifact has `append=False`, later ones `append=True`, the last one `last=True`;
    `append=False` on a known id replaces the artifact. Chunks that wait for the same append become one event unless
    `mergeable=False`. `metadata` is merged key by key into the metadata of the artifact; `extensions` are the URIs of
    its extensions. At most 1 MiB a chunk. ValueError: not exactly one content. NoContent: `parts` is empty.
    """

    artifact_id: str
    text: str | None = None
    data: Any = None
    raw: bytes | None = None
    url: str | None = None
    parts: Sequence[Part] | None = None
    name: str | None = None
    description: str | None = None
    filename: str | None = None
    media_type: str | None = None
    metadata: Mapping[str, Any] | None = None
    extensions: Sequence[str] = ()
    append: bool = False
    last: bool = False
    mergeable: bool = True

    def __post_init__(self) -> None:
        given = (
            (self.text is not None)
            + (self.data is not None)
            + (self.raw is not None)
            + (self.url is not None)
            + bool(self.parts)
        )
        if self.parts is not None and (self.parts or not given):
            check_parts(f"the artifact {self.artifact_id!r}", self.parts)
        if given != 1 or not self.artifact_id:
            raise ValueError("an ArtifactChunk must have an artifact_id and one of text, data, raw, url and parts")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The agent calls a tool; `args` is a JSON object."""

    id: str
    name: str
    args: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the tool call `id`; `response` is JSON."""

    id: str
    name: str
    response: Any


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The data from which the agent can continue: JSON, at most 64 KiB, hidden from clients.

    The task's newest one is `turn.checkpoint` of every later run. ValueError, TypeError: not JSON, or too large.
    """

    data: Any

    def __post_init__(self) -> None:
        if (size := len(dumped(self.data).encode())) > MAX_CHECKPOINT_BYTES:
            raise ValueError(f"a Checkpoint must have at most {MAX_CHECKPOINT_BYTES:,} bytes of JSON, not {size:,}")


@dataclass(frozen=True, slots=True)
class Usage:
    """Figures of the run, for example `{"input_tokens": 120}`; they are added to earlier figures of the run.

    When the run ends, also by a cancel or the loss of its process, its sums are added to the sums of earlier runs in
    the task's `metadata["taskplane.dev/usage"]`.

    A run has at most 100 names, and finite sums. ValueError, TypeError: not finite numbers by name.
    """

    figures: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, value in self.figures.items():
            _check_figure(name, value)


@dataclass(frozen=True, slots=True)
class StatusText:
    """A text of a StatusWriter, or None, and the figures of that call.

    ValueError, TypeError: `usage` is not finite numbers by name.
    """

    text: str | None
    usage: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        Usage(self.usage)


@dataclass(frozen=True, slots=True)
class AskInput:
    """Ends the run until the user answers: the task is input-required."""

    message: str | Message


@dataclass(frozen=True, slots=True)
class AskAuth:
    """Ends the run until the user has authenticated elsewhere and confirms it: the task is auth-required."""

    message: str | Message


@dataclass(frozen=True, slots=True)
class Complete:
    """Ends the task well, with a last message or without."""

    message: str | Message | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Ends the task as failed; the user sees `reason`, or a plain sentence if it is blank. TypeError: `reason` is
    neither a str nor a Message."""

    reason: str | Message

    def __post_init__(self) -> None:
        _check_message("Fail", self.reason)


@dataclass(frozen=True, slots=True)
class Reject:
    """Ends the task as rejected: the agent does not accept it. `reason` as for Fail. TypeError: it is neither a str nor
    a Message."""

    reason: str | Message

    def __post_init__(self) -> None:
        _check_message("Reject", self.reason)


@dataclass(frozen=True, slots=True)
class MakeTask:
    """A Router's decision to make a task; `reason` goes to the log and the trace."""

    reason: str = ""


MAX_CHECKPOINT_BYTES = 64 * 1024

Final = AskInput | AskAuth | Complete | Fail | Reject
Change = Working | Text | Say | ArtifactChunk | ToolCall | ToolResult | Checkpoint | Usage | Final


@runtime_checkable
class Agent(Protocol):
    """An agent that an executor runs. The gateway fills in the interfaces of the card."""

    card: AgentCard

    def run(self, turn: Turn) -> AsyncIterator[Change] | Iterator[Change]:
        """Work on one turn, as an async generator, or as a plain generator, which runs in a thread.

        End with a final change, or return to complete the task; an exception fails it. The user sees the text of an
        AgentError. For any other exception the user sees a plain sentence, and the log has the exception.

        Yield nothing after a final change. The iterator is closed when the task is cancelled or its lease is lost;
        later changes are discarded. It waits at a `yield` while the log cannot keep up.
        """
        ...


@runtime_checkable
class Router(Protocol):
    """An agent that may answer without a task.

    With `routes_at_sight = True` on the agent, `route` reads the message alone: it is called before the message is
    stored, with an empty `turn.history`. If it decides without waiting, it costs no extra write.
    """

    async def route(self, turn: Turn) -> "Message | str | MakeTask | AsyncIterator[Change] | None":
        """Return a direct answer, or None or MakeTask to make a task. May run again for a repeated request that was not
        decided yet.

        An iterator of changes makes a task, too. Its run continues the iterator instead of calling `run`, so a model
        call that began while deciding is not repeated. If the task must wait in the queue, the iterator is closed, and
        `run` is called. The iterator runs in the asyncio task of `route`, with any isolation of the agent, and is
        closed with the run. Its turn is the one given to `route`; `incoming()` and `cancelled` then belong to the run.

        After the executor's `route_timeout` (`unary_route_timeout` if the turn `waits`) it continues inside a task; a
        direct answer then becomes the completion. An exception makes a task that fails.
        """
        ...


@runtime_checkable
class StatusWriter(Protocol):
    """An agent that reports its current work."""

    async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | StatusText | None:
        """Return a text of at most 50 characters about the current work, or None; a StatusText if the call has figures.

        Called every `status_interval` seconds of the executor while a run works on a turn, until it makes an artifact
        or ends. There is one call at a time, in the event loop of the executor, with any isolation of the agent.
        `turn.history` continues with `turn.message` and the run's messages since. `recent`: the last five texts, newest
        first. A longer text, or one of these, is not sent. An exception goes to the log. The call under way is
        cancelled with the run.
        """
        ...


@runtime_checkable
class ArtifactMaker(Protocol):
    """An agent that makes an artifact at the end of a turn without one."""

    def make_artifact(self, turn: Turn) -> AsyncIterator[Change] | Iterator[Change]:
        """Yield the chunks of an artifact, or nothing. Called if `run` has completed and this turn has no artifact.

        The final message has been sent, and the task has not ended. `turn.history` also has `turn.message` and the
        messages of the run. Allowed are ArtifactChunk, Working, Usage and Fail. The isolation is the same as for `run`.
        """
        ...


@runtime_checkable
class Extended(Protocol):
    """An agent with a further card for authenticated callers."""

    def extended_card(self, caller: Principal) -> "AgentCard | Awaitable[AgentCard | None] | None":
        """Return the card for this caller, or None if there is none for this caller; may be a coroutine.

        The gateway announces the card, and completes it as it does the public one. Called for each request in the event
        loop of the executor, with any isolation of the agent. An exception goes to the log.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """An agent with open resources, such as connections."""

    async def aclose(self) -> None:
        """Close the resources. Called when the executor ends, after the last run; an exception goes to the log."""
        ...


@runtime_checkable
class Policied(Protocol):
    """An agent with a policy of its own."""

    def policy(self, turn: Turn) -> Policy:
        """Return the policy of the task that this turn begins. Must be quick, since the caller waits.

        If it raises, or returns anything but a Policy, the task fails and is not run.
        """
        ...
