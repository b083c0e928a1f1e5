"""The generation of tasks and events in their metadata, for clients that name its extension."""

from collections.abc import Sequence
from typing import Any, TypeVar

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import GENERATION
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.translate.dialect import Answer, Payload

P = TypeVar("P", bound=Payload)


def numbered(payload: P, cursor: str) -> P:
    """Return a copy with the generation that the cursor names; a payload that is in no log as it is."""
    if not cursor:
        return payload
    copy = type(payload)()
    filled: Any = copy
    filled.CopyFrom(payload)
    filled.metadata.fields[GENERATION].number_value = int(cursor.rpartition("-")[2])
    return copy


def all_numbered(items: Sequence[tuple[str, P]]) -> list[tuple[str, P]]:
    """Return each payload with its generation, beside its cursor."""
    return [(cursor, numbered(payload, cursor)) for cursor, payload in items]


def answer(call: Call, task: a2a.Task, cursor: str, *, bare: bool = False) -> Answer:
    """Return the answer to a call by a task, with its generation if the client wants it."""
    return Answer(numbered(task, cursor) if call.numbered else task, cursor, bare=bare)
