"""The transcript of a session: its conversation as Markdown, to be read elsewhere."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import STATUS_TEXT, TOOL_KEYS
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination.conversation import open_conversation
from taskplane.gateway.coordination.shown_messages import kind_of
from taskplane.gateway.kagent import paging
from taskplane.gateway.plane import Plane
from taskplane.runtime import json_lines, message_times
from taskplane.runtime.json_values import text_in, to_dict, to_json

_MESSAGES: Final = 200
# Number of tasks with artifacts in memory at once.
_TASKS: Final = 20
_ENDS: Final[Mapping[int, str]] = {
    a2a.TASK_STATE_FAILED: "Failed",
    a2a.TASK_STATE_CANCELED: "Canceled",
    a2a.TASK_STATE_REJECTED: "Rejected",
}
# The member of a tool call, and of its result, that is shown.
_TOOLS: Final = {"function_call": "args", "function_response": "response"}


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a task, which is told after its last message. `word` for how it failed, else empty; `reason`: the text
    of its status."""

    word: str
    reason: str
    artifacts: Sequence[str]


async def pieces(plane: Plane, session: sb.Session) -> AsyncGenerator[bytes, None]:
    """Yield the transcript, a page of messages at a time: messages with author and time, tool calls, files, artifacts,
    and how tasks ended.

    Lines of progress and rewound messages are left out. Raise NotFound.
    """
    conversation = await open_conversation(plane, session.context_id)
    ends = await _ends(plane, session.context_id)
    newest = page = await conversation.page(_MESSAGES)
    places, left = [""], Counter(_tasks(page.messages))
    # The newest page comes first, and the message after the last one of a task must be known before.
    while page.more:
        places.append(page.messages[0].message_id)
        page = await conversation.page(_MESSAGES, places[-1])
        left.update(_tasks(page.messages))
    writer = _Writer(_one_line(session.agent), ends, left)
    yield f"# {_one_line(session.title) or 'Untitled'}\n".encode()
    for place in reversed(places):
        page = await conversation.page(_MESSAGES, place) if place else newest
        async with plane.pacer.piece():
            size = sum(message.ByteSize() for message in page.messages)
            piece = await plane.worker.run(size, writer.write, page.messages)
        yield piece


async def _ends(plane: Plane, context_id: str) -> Mapping[str, _End]:
    """Return the end of each task, by its id."""
    asked = pb.ListTasksRequest(context_id=context_id, page_size=_TASKS, history_length=0, include_artifacts=True)
    async with aclosing(paging.pages(plane.tasks.ListTasks, asked)) as pages:
        return {record.id: _end(record.task) async for page in pages for record in page.records}


def _end(task: a2a.Task) -> _End:
    artifacts = [_one_line(artifact.name or artifact.artifact_id) for artifact in task.artifacts]
    return _End(_ENDS.get(task.status.state, ""), _text(task.status.message), artifacts)


def _tasks(messages: Iterable[a2a.Message]) -> list[str]:
    return [message.task_id for message in messages if _is_said(message)]


class _Writer:
    """The Markdown of messages, oldest first. `left` counts the messages of each task that were not written yet."""

    def __init__(self, agent: str, ends: Mapping[str, _End], left: Counter[str]) -> None:
        self._agent = agent
        self._ends = ends
        self._left = left

    def write(self, messages: Iterable[a2a.Message]) -> bytes:
        """Return the Markdown of the next messages."""
        blocks = [block for message in messages if _is_said(message) for block in self._blocks(message)]
        return "".join([f"\n{block}\n" for block in blocks]).encode()

    def _blocks(self, message: a2a.Message) -> Iterable[str]:
        self._left[message.task_id] -= 1
        end = self._ends.get(message.task_id) if not self._left[message.task_id] else None
        parts = [block for part in message.parts if (block := _part(part))]
        repeats = end and end.word and message.role == a2a.ROLE_AGENT and _text(message) == end.reason
        if parts and not repeats:
            yield f"## {'You' if message.role == a2a.ROLE_USER else self._agent}{_time(message)}"
            yield from parts
        if end:
            yield from [f"> Artifact: {name}" for name in end.artifacts]
            if end.word:
                yield "> " + ": ".join(filter(None, (end.word, _one_line(end.reason))))


def _is_said(message: a2a.Message) -> bool:
    # Those of documents are in the conversation; pieces of texts are in none.
    return kind_of(message) != STATUS_TEXT


def _text(message: a2a.Message) -> str:
    return "".join([part.text for part in message.parts])


def _time(message: a2a.Message) -> str:
    time = text_in(message.metadata, message_times.KEY)
    return f" · {time[:16].replace('T', ' ')} UTC" if time else ""


def _part(part: a2a.Part) -> str:
    content = part.WhichOneof("content")
    if content == "text":
        return part.text.strip()
    if content == "data":
        return _data(part)
    return f"> File: {_one_line(part.filename or part.url or part.media_type)}" if content else ""


def _data(part: a2a.Part) -> str:
    shown = _TOOLS.get(text_in(part.metadata, *TOOL_KEYS))
    if shown and part.data.HasField("struct_value"):
        tool = to_dict(part.data.struct_value)
        return f"> Tool: {_one_line(str(tool.get('name', '')))}\n\n{_fenced(tool.get(shown))}"
    return _fenced(to_json(part.data))


def _fenced(value: Any) -> str:
    """Return JSON within more backticks than it has in a row."""
    code = json_lines.encode_text(value, indent=2)
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", code))]))
    return f"{fence}json\n{code}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
