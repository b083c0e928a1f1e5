"""The session of one test in memory: what an executor needs of the session history, and nothing durable."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryServicer
from taskplane.runtime.errors import NotFound
from taskplane.runtime.interceptors import Context
from taskplane.runtime.plain_json import plain
from taskplane.runtime.struct_values import to_value

_TEMPORARY = "temp:"


class MemorySession(SessionHistoryServicer):
    """The session history with one session. A method that no turn of an agent needs is UNIMPLEMENTED."""

    def __init__(self, context_id: str) -> None:
        self.state: dict[str, Any] = {}
        self._context_id = context_id
        self._entries: list[pb.Entry] = []
        self._exists = False

    # For the test.

    def begin(
        self, history: Sequence[a2a.Message], events: Sequence[Mapping[str, Any]], state: Mapping[str, Any]
    ) -> None:
        """Fill the session with what was said, and with the events and the state that a runtime left."""
        self.state.update(state)
        for number, message in enumerate(history, 1):
            invocation = f"before-{(number + 1) // 2}"
            self._store(
                pb.Entry(id=f"before-{number}", kind=pb.ENTRY_KIND_MESSAGE, invocation_id=invocation, message=message)
            )
        for number, event in enumerate(events, 1):
            data = {"id": f"event-{number}", **event}
            entry = pb.Entry(
                id=str(data["id"]), kind=pb.ENTRY_KIND_EVENT, invocation_id="before", data=json.dumps(data)
            )
            self._store(entry)
        self._exists = bool(history or events or state)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the events of runtimes, oldest first."""
        return [json.loads(entry.data) for entry in self._entries if entry.kind == pb.ENTRY_KIND_EVENT]

    # SessionHistory.

    async def AppendEntries(self, request: pb.AppendEntriesRequest, context: Context) -> pb.AppendEntriesResponse:
        if not (self._exists or request.HasField("create")):
            raise self._missing()
        self._exists = True
        before = {entry.id: entry for entry in self._entries}
        new = [entry for entry in request.entries if entry.id not in before]
        for entry in new:
            self._store(entry)
        answer = pb.AppendEntriesResponse(
            version=len(self._entries),
            entry_count=len(self._entries),
            appended=len(new),
            known=[before[entry.id] for entry in request.entries if entry.id in before],
        )
        answer.updated_at.GetCurrentTime()
        return answer

    async def ListEntries(self, request: pb.ListEntriesRequest, context: Context) -> pb.ListEntriesResponse:
        session = self._session()
        voids = {entry.target: not entry.off for entry in self._entries if entry.kind == pb.ENTRY_KIND_VOID}
        found = [
            entry
            for entry in (reversed(self._entries) if request.newest_first else self._entries)
            if (not request.kinds or entry.kind in request.kinds)
            and (not request.message_id or entry.message.message_id == request.message_id)
            and (not request.effective or (_is_read(entry, request.kinds) and not voids.get(entry.invocation_id)))
        ]
        return pb.ListEntriesResponse(entries=found, session=session)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        return pb.GetSessionResponse(session=self._session())

    async def GetState(self, request: pb.GetStateRequest, context: Context) -> pb.GetStateResponse:
        return pb.GetStateResponse(state=to_value(plain(self.state))[0].struct_value, session=self._session())

    async def TouchSession(self, request: pb.TouchSessionRequest, context: Context) -> pb.TouchSessionResponse:
        return pb.TouchSessionResponse()

    async def ListCut(self, request: pb.ListCutRequest, context: Context) -> pb.ListCutResponse:
        return pb.ListCutResponse(session=self._session())

    async def ListUnapplied(self, request: pb.ListUnappliedRequest, context: Context) -> pb.ListUnappliedResponse:
        return pb.ListUnappliedResponse()

    async def ListUnsettled(self, request: pb.ListUnsettledRequest, context: Context) -> pb.ListUnsettledResponse:
        return pb.ListUnsettledResponse()

    async def DropAbandonedImports(
        self, request: pb.DropAbandonedImportsRequest, context: Context
    ) -> pb.DropAbandonedImportsResponse:
        return pb.DropAbandonedImportsResponse()

    def _session(self) -> pb.Session:
        if not self._exists:
            raise self._missing()
        size = len(self._entries)
        return pb.Session(context_id=self._context_id, version=size, entry_count=size)

    def _store(self, entry: pb.Entry) -> None:
        stored = pb.Entry()
        stored.CopyFrom(entry)
        stored.seq = len(self._entries) + 1
        now = Timestamp()
        now.GetCurrentTime()
        stored.created_at.CopyFrom(now)
        self._entries.append(stored)
        if entry.kind == pb.ENTRY_KIND_EVENT:
            self._change_state(json.loads(entry.data))

    def _change_state(self, event: Mapping[str, Any]) -> None:
        actions: dict[str, Any] = event.get("actions") or {}
        delta: dict[str, Any] = actions.get("state_delta") or actions.get("stateDelta") or {}
        for key, value in delta.items():
            if value is None:
                self.state.pop(key, None)
            elif not key.startswith(_TEMPORARY):
                self.state[key] = value

    def _missing(self) -> NotFound:
        return NotFound(f"session {self._context_id} was not found", reason="SESSION_NOT_FOUND")


def _is_read(entry: pb.Entry, kinds: "Sequence[pb.EntryKind.ValueType]") -> bool:
    if entry.kind == pb.ENTRY_KIND_EVENT:
        return entry.kind in kinds
    return entry.kind == pb.ENTRY_KIND_MESSAGE or (entry.kind == pb.ENTRY_KIND_OUTCOME and entry.HasField("message"))
