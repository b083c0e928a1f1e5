"""A session as server-sent events: its tasks, its entries and its rewinds."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, TypeVar

from grpc.aio import UnaryStreamCall

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.merge import merged
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.errors import error_api
from taskplane.gateway.event_streams import event_stream
from taskplane.gateway.metrics import EVENTS
from taskplane.gateway.plane import Plane
from taskplane.gateway.sessions.task_infos import task_info
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.web import sse
from taskplane.gateway.web.http import Reply, Request
from taskplane.runtime import json_lines, logs
from taskplane.runtime.backoff import Backoff
from taskplane.runtime.errors import NotFound, OutOfRange, PlaneError, Unavailable

T = TypeVar("T")

_log = logging.getLogger(__name__)

_KINDS: Final[dict[int, str]] = {
    value: name.removeprefix("ENTRY_KIND_").lower() for name, value in sb.EntryKind.items()
}
_REWIND_KINDS: Final = frozenset({sb.ENTRY_KIND_REWIND, sb.ENTRY_KIND_UNDO, sb.ENTRY_KIND_PUSHED})


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the changes of a session as a stream, until the session is deleted.

    Each stream begins with a snapshot. Its events have no ids, so a client that reconnects gets a new snapshot. Raise
    NotFound.
    """
    context_id = request.arguments["session"]
    await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))
    return event_stream(plane, caller, _events(plane, context_id))


async def _events(plane: Plane, context_id: str) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(_Watch(plane, context_id).events()) as events:
            async for name, data in events:
                EVENTS.inc()
                yield sse.event(await plane.worker.run(0, json_lines.encode, data), name=name)
    except (NotFound, OutOfRange):
        # The session was deleted, and perhaps created again, while the store could not be reached.
        return
    except PlaneError as error:
        yield sse.event(json_lines.encode(error_api(error, logs.request_id.get())), name="error")


class _Watch:
    """One client's view of a session. The watch of entries begins first, so that every entry after the version in the
    snapshot is sent."""

    def __init__(self, plane: Plane, context_id: str) -> None:
        self._plane = plane
        self._context_id = context_id
        self._version = 0
        # The state of each task as it was told last.
        self._states: dict[str, tuple[Any, ...]] = {}

    async def events(self) -> AsyncGenerator[tuple[str, Any], None]:
        """Yield names and data of the events."""
        entries = _entries(self._plane, self._context_id)
        tasks = _tasks(self._plane, self._context_id)
        async with aclosing(entries), aclosing(tasks), aclosing(merged(tasks, entries)) as told:
            found, snapshot = await anext(entries, None), await anext(tasks, None)
            if found is None or snapshot is None:
                return
            self._version = found.session.version
            yield self._of_tasks(snapshot)
            async for one in told:
                if isinstance(one, pb.WatchSessionResponse):
                    yield self._of_tasks(one)
                elif one.WhichOneof("response") == "entries":
                    self._version = one.entries.version
                    for event in self._of_entries(one.entries):
                        yield event
                    if any(map(_changes_history, one.entries.entries)):
                        yield await self._rewound()

    def _of_tasks(self, told: pb.WatchSessionResponse) -> tuple[str, Any]:
        if told.HasField("snapshot"):
            infos = [task_info(info) for info in told.snapshot.infos]
            self._states = {info["taskId"]: _state(info) for info in infos}
            return "snapshot", {"version": self._version, "tasks": infos}
        if told.HasField("removed"):
            self._states.pop(told.removed, None)
            return "task-removed", {"taskId": told.removed}
        received = told.HasField("received")
        info = task_info(told.received if received else told.changed)
        if _log.isEnabledFor(logging.DEBUG):
            act = "added" if received else "updated"
            _log.debug("%s task %s of session %s: state %s", act, info["taskId"], self._context_id, info["state"])
        before, state = self._states.get(info["taskId"]), _state(info)
        self._states[info["taskId"]] = state
        if received:
            return "task-received", info
        return "task-state-changed" if before != state else "task-updated", info

    def _of_entries(self, told: sb.Entries) -> Iterable[tuple[str, Any]]:
        for entry in told.entries:
            shown: dict[str, Any] = {
                "entryId": entry.id,
                "kind": _KINDS.get(entry.kind, "unknown"),
                "invocationId": entry.invocation_id,
                "version": told.version,
            }
            if entry.task_id:
                shown["taskId"] = entry.task_id
            if entry.kind == sb.ENTRY_KIND_VOID and entry.off:
                shown["takenBack"] = True
            if entry.HasField("message"):
                shown["message"] = V0_3.message(entry.message)
            yield "entry-added", shown

    async def _rewound(self) -> tuple[str, Any]:
        cut = await self._plane.sessions.ListCut(sb.ListCutRequest(context_id=self._context_id))
        return "rewound", {"version": cut.session.version, "cut": list(cut.invocation_ids)}


def _state(info: dict[str, Any]) -> tuple[Any, ...]:
    return info["state"], info.get("paused"), info.get("superseded"), len(info["changes"])


def _changes_history(entry: sb.Entry) -> bool:
    """Return whether an entry changes which earlier entries are in effect."""
    if entry.kind == sb.ENTRY_KIND_EVENT:
        return bool(entry.target)
    if entry.kind == sb.ENTRY_KIND_VOID:
        return entry.HasField("deleted")
    return entry.kind in _REWIND_KINDS and not entry.off


async def _entries(plane: Plane, context_id: str) -> AsyncGenerator[sb.WatchEntriesResponse, None]:
    """Yield the session, then its new entries, until it is deleted; continue after the last entry on reconnecting."""
    asked = sb.WatchEntriesRequest(context_id=context_id)
    async with aclosing(_reconnecting(plane, lambda: plane.sessions.WatchEntries(asked))) as responses:
        async for response in responses:
            which = response.WhichOneof("response")
            if which == "deleted":
                return
            if which == "session" and not asked.HasField("after_seq"):
                asked.after_seq = response.session.entry_count
                yield response
            elif which == "entries":
                asked.after_seq = response.entries.entries[-1].seq
                yield response


async def _tasks(plane: Plane, context_id: str) -> AsyncGenerator[pb.WatchSessionResponse, None]:
    """Yield a snapshot of the tasks, then their changes; begin with a new snapshot on reconnecting."""
    asked = pb.WatchSessionRequest(context_id=context_id)
    async with aclosing(_reconnecting(plane, lambda: plane.tasks.WatchSession(asked))) as responses:
        async for response in responses:
            if not response.HasField("quiet"):
                yield response


async def _reconnecting(plane: Plane, watch: Callable[[], UnaryStreamCall[Any, T]]) -> AsyncGenerator[T, None]:
    """Yield the responses of a watch, which is opened again while the store drains or cannot be reached, for up to
    `store_patience` seconds. Raise Unavailable before the first response."""
    backoff = Backoff(patience=plane.settings.store_patience)
    begun = False
    while True:
        call = watch()
        try:
            async for response in call:
                backoff.reset()
                begun = True
                yield response
        except Unavailable:
            if not begun:
                raise
        finally:
            call.cancel()
        if not await backoff.wait():
            return
