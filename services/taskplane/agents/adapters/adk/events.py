"""The stored form of ADK's events in the session of a turn: ADK's JSON with marks of the turn that wrote them.

A rerun repeats a turn, so only the events of a turn with the highest fence count.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.events.event import Event
from google.genai import types
from pydantic import BaseModel, ValidationError

from taskplane.agents.adapters.adk.content import content_of, json_of
from taskplane.agents.agent import Message, Turn
from taskplane.api.a2a.v1.a2a_pb2 import ROLE_USER
from taskplane.api.message_metadata import INVOCATION_KEYS
from taskplane.runtime.json_values import text_in

_ARTIFACT: Final = "taskplaneArtifact"
_USER: Final = "user"


class Marks(BaseModel):
    """The turn and the task that wrote an event, and the fence of the run. Empty: a runtime outside did."""

    taskplane_turn: str = ""
    taskplane_task: str = ""
    taskplane_fence: int = 0


class SavedArtifact(BaseModel):
    """A version of an artifact; without `version`, the deletion of all versions. `part`: JSON, or None if not kept."""

    name: str
    version: ArtifactVersion | None = None
    part: str | None = None


class Stored(NamedTuple):
    """An entry of the session: an event of ADK, or the outcome of an artifact, with its author and turn."""

    turn: str
    marks: Marks
    event: Event | None
    artifact: SavedArtifact | None


def pack_event(event: Event, turn: Turn) -> dict[str, Any]:
    """Return the stored form of an event."""
    data = json_of(event, by_alias=True)
    return {**data, "customMetadata": {**data.get("customMetadata", {}), **_marks(turn)}}


def pack_artifact(artifact: SavedArtifact, turn: Turn) -> dict[str, Any]:
    """Return the stored form of a version of an artifact, or of a deletion."""
    saved = json_of(artifact, by_alias=True)
    return {"id": Event.new_id(), _ARTIFACT: saved, "customMetadata": _marks(turn)}


def _marks(turn: Turn) -> dict[str, Any]:
    marks = Marks(taskplane_turn=turn.invocation_id, taskplane_task=turn.task_id, taskplane_fence=turn.fence)
    return marks.model_dump()


def unpack(entries: Iterable[Mapping[str, Any]], turn: Turn) -> Sequence[Stored]:
    """Return the valid entries of ADK in the session, in order, without an earlier attempt at this turn.

    Entries of other agents are left out; entries of an ADK runtime outside are included.
    """
    found = [stored for entry in entries if (stored := _unpack(entry)) is not None]
    newest: dict[str, int] = {}
    for stored in found:
        newest[stored.turn] = max(stored.marks.taskplane_fence, newest.get(stored.turn, 0))
    return [
        each for each in found if each.turn != turn.invocation_id and each.marks.taskplane_fence == newest[each.turn]
    ]


def _unpack(entry: Mapping[str, Any]) -> Stored | None:
    try:
        marks = Marks.model_validate(entry.get("customMetadata") or {})
        if _ARTIFACT in entry:
            saved = SavedArtifact.model_validate(entry[_ARTIFACT])
            return Stored(marks.taskplane_turn, marks, None, saved)
        # From JSON, since bytes are text there.
        event = Event.model_validate_json(json.dumps(entry))
    except ValidationError:
        return None
    return Stored(marks.taskplane_turn or event.invocation_id, marks, event, None) if event.author else None


def events_for(turn: Turn, stored: Sequence[Stored], author: str) -> list[Event]:
    """Return the events that a turn begins with, in the order of the conversation.

    A turn without ADK events, because another agent answered it, is made of its messages in `turn.history`, with
    `author` as the author of the answers. Turns that are not in this history, because they began while this turn
    waited, are left out. Questions of other tasks no longer wait: ADK leaves out calls without a response.
    """
    told = [(_invocation_of(message), message) for message in turn.history]
    names = {name for name, _ in told}
    events = [each for each in stored if each.event and (each.turn in names or not each.marks.taskplane_task)]
    last = {each.turn: index for index, each in enumerate(events)}
    merged: list[Event] = []
    at = 0
    for name, message in told:
        if name in last:
            merged.extend(_as_seen(each, turn.task_id) for each in events[at : last[name] + 1])
            at = max(at, last[name] + 1)
        # Otherwise an attempt that was lost said it.
        elif name != turn.invocation_id:
            merged.extend(_said(message, name, author, merged[-1].timestamp if merged else 0.0))
    return [*merged, *(_as_seen(each, turn.task_id) for each in events[at:])]


def _invocation_of(message: Message) -> str:
    return text_in(message.metadata, *INVOCATION_KEYS)


def _said(message: Message, invocation_id: str, author: str, time: float) -> Iterator[Event]:
    is_user = message.role == ROLE_USER
    content = content_of(message, "user" if is_user else "model")
    if content.parts:
        author = _USER if is_user else author
        yield Event(invocation_id=invocation_id, author=author, content=content, timestamp=time)


def _as_seen(stored: Stored, task_id: str) -> Event:
    assert stored.event is not None
    if stored.marks.taskplane_task == task_id or not stored.event.long_running_tool_ids:
        return stored.event
    return stored.event.model_copy(update={"long_running_tool_ids": None})


class Call(NamedTuple):
    """A call of a long-running tool, and the invocation of ADK that made it."""

    invocation_id: str
    call: types.FunctionCall


def waiting_calls(events: Iterable[Event]) -> Sequence[Call]:
    """Return the calls of long-running tools that the user has not answered, oldest first.

    The result of such a tool does not count as the answer.
    """
    calls: dict[str, Call] = {}
    for event in events:
        for call in event.get_function_calls():
            if call.id and call.id in (event.long_running_tool_ids or ()):
                calls[call.id] = Call(event.invocation_id, call)
        if event.author == _USER:
            for response in event.get_function_responses():
                calls.pop(response.id or "", None)
    return list(calls.values())
