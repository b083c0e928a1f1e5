"""The ids of a session that is imported under another id.

Ids of entries, tasks and invocations are unique per owner or tenant. Each is replaced by a hash of the session's new id
and the old one, so equal ids stay equal. Ids of messages and artifacts are kept.
"""

import hashlib
import json
from typing import Any, Final, cast

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION_KEYS
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.validation import is_id

_OUTCOME: Final = "-outcome"
_OF_EVENT: Final = ("invocation_id", "invocationId")
_OF_ACTIONS: Final = ("rewind_before_invocation_id", "rewindBeforeInvocationId")


class IdMapping:
    """A mapping of old ids to new ones, applied to messages in place."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def id(self, old: str) -> str:
        """Return the new id; an empty one stays empty, and that of the session is that of the new one."""
        if old == self._old:
            return self._new
        return hashlib.sha256(f"{self._new}\0{old}".encode()).hexdigest()[:32] if old else ""

    def entry(self, one: sb.Entry) -> None:
        """Replace the ids in an entry of the session."""
        if one.kind == sb.ENTRY_KIND_EVENT:
            one.data = self._data(one.data, one.id)
        one.id = self._entry_id(one)
        one.invocation_id = self.id(one.invocation_id)
        one.task_invocation_id = self.id(one.task_invocation_id)
        one.task_id = self.id(one.task_id)
        one.target = self.id(one.target)
        if one.HasField("message"):
            self._message(one.message)
        if one.HasField("deleted"):
            for names in (one.deleted.invocation_ids, one.deleted.entry_ids):
                names[:] = [self.id(name) for name in names]
        if one.HasField("pushed"):
            for message in one.pushed.messages:
                self._message(message)
            for names in (one.pushed.reduced_invocation_ids, one.pushed.invocation_ids):
                names[:] = [self.id(name) for name in names]

    def task(self, one: pb.ExportedTask) -> None:
        """Replace the ids in a task of the session."""
        one.uid = self.id(one.uid)
        one.id = self.id(one.id)
        one.own_turn = self.id(one.own_turn)
        one.cut_invocation_ids[:] = [self.id(turn) for turn in one.cut_invocation_ids]
        self._task(one.task)

    def event(self, one: pb.Event) -> None:
        """Replace the ids in an event of a task."""
        one.invocation_id = self.id(one.invocation_id)
        which = one.event.WhichOneof("payload")
        if which == "task":
            self._task(one.event.task)
        elif which == "message":
            self._message(one.event.message)
        elif which is not None:
            update: Any = getattr(one.event, which)
            self._place(update)
            self._metadata(update)
            if which == "status_update" and update.status.HasField("message"):
                self._message(update.status.message)

    def _entry_id(self, one: sb.Entry) -> str:
        # A derived id keeps its suffix, so that the id it is derived from is mapped as elsewhere.
        for end in (_OUTCOME, f"-{one.generation}"):
            if one.id.endswith(end) and len(one.id) > len(end):
                return self.id(one.id.removesuffix(end)) + end
        return self.id(one.id)

    def _task(self, task: a2a.Task) -> None:
        task.id = self.id(task.id)
        task.context_id = self._context(task.context_id)
        self._metadata(task)
        for message in task.history:
            self._message(message)
        for artifact in task.artifacts:
            self._metadata(artifact)
        if task.status.HasField("message"):
            self._message(task.status.message)

    def _message(self, message: a2a.Message) -> None:
        self._place(message)
        self._metadata(message)
        message.reference_task_ids[:] = [self.id(one) for one in message.reference_task_ids]

    def _place(self, of: Any) -> None:
        of.task_id = self.id(of.task_id)
        of.context_id = self._context(of.context_id)

    def _context(self, old: str) -> str:
        return self._new if old == self._old else old

    def _metadata(self, of: Any) -> None:
        if of.HasField("metadata"):
            metadata: Struct = of.metadata
            for name in INVOCATION_KEYS:
                if name in metadata.fields and metadata.fields[name].string_value:
                    metadata.fields[name].string_value = self.id(metadata.fields[name].string_value)

    def _data(self, data: str, entry_id: str) -> str:
        """Return the JSON of a runtime's event with new ids; unchanged, byte by byte, if it contains none."""
        try:
            event: object = json.loads(data)
        except (ValueError, RecursionError):
            return data
        if not isinstance(event, dict):
            return data
        fields = cast("dict[str, Any]", event)
        changed = self._fields(fields, _OF_EVENT) + self._fields(fields.get("actions"), _OF_ACTIONS)
        if fields.get("id") == entry_id:
            fields["id"] = self.id(entry_id)
            changed += 1
        return json.dumps(fields) if changed else data

    def _fields(self, of: object, names: tuple[str, ...]) -> int:
        if not isinstance(of, dict):
            return 0
        fields = cast("dict[str, Any]", of)
        # Any other value is an id for no store, as one with a lone surrogate, which nothing can encode.
        found = [name for name in names if isinstance(fields.get(name), str) and is_id(fields[name])]
        for name in found:
            fields[name] = self.id(fields[name])
        return len(found)
