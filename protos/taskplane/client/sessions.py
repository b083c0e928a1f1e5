"""A client of the routes under `/api/sessions`."""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from taskplane.client.answers import listed, members, not_understood, parsed
from taskplane.client.failures import Missing, Unreachable, failure_of_event
from taskplane.client.http import Http
from taskplane.client.pauses import GIVE_UP_AFTER, Pauses

_PAGE: Final = 1_000
# Seconds that a server may take to store an import.
_IMPORT: Final = 600.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A change of a session. `name`: snapshot, task-received, task-state-changed, task-updated, task-removed,
    entry-added or rewound."""

    name: str
    data: dict[str, Any]
    rejoined: bool = False
    """Whether this is the snapshot with which a stream that broke goes on."""


class Sessions:
    """The sessions of one server."""

    def __init__(self, http: Http, *, give_up_after: float = GIVE_UP_AFTER) -> None:
        """Read and write through `http`, inside its `async with`. A call or stream without any success for
        `give_up_after` seconds raises `Unreachable`."""
        self._http = http
        self._give_up_after = give_up_after

    async def find(self, search: str = "", limit: int | None = None) -> list[dict[str, Any]]:
        """Return the caller's sessions, newest update first, at most `limit`, with `search` in their titles in any
        case."""
        found: list[dict[str, Any]] = []
        token = ""
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            query = {"limit": str(wanted), "q": search, "page_token": token}
            path = "/api/sessions?" + urlencode({name: value for name, value in query.items() if value})
            page = await self._http.answer("GET", path)
            found += listed(self._http.url, page.get("data"))
            token = str(page.get("next_page_token") or "")
            if not token:
                break
        return found

    async def get(self, session_id: str) -> dict[str, Any]:
        """Return a session: `{session, events}`. Raise `Missing`."""
        return await self._http.data("GET", _path(session_id), "session", "events")

    async def tasks(self, session_id: str) -> list[dict[str, Any]]:
        """Return the tasks of a session, oldest first, after the session task if there is one. Raise `Missing`."""
        return await self._http.objects(_path(session_id, "/tasks"))

    async def task_infos(self, session_id: str, *, superseded: bool = False) -> list[dict[str, Any]]:
        """Return the task infos of a session, oldest first. Raise `Missing`."""
        query = "?include=superseded" if superseded else ""
        return await self._http.objects(_path(session_id, "/task-infos") + query)

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return the messages that the session shows, oldest first, those of documents included. Raise `Missing`."""
        said: list[dict[str, Any]] = []
        query: dict[str, str | int] = {"limit": _PAGE}
        while True:
            page = await self._http.data("GET", _path(session_id, "/messages?" + urlencode(query)), "messages")
            said[:0] = page["messages"]
            if not page.get("before"):
                return said
            query["before"] = str(page["before"])

    async def rename(self, session_id: str, title: str) -> dict[str, Any]:
        """Change the title of a session. Raise `Missing`."""
        return await self._http.data("PATCH", _path(session_id), "id", body={"name": title})

    async def delete(self, session_id: str) -> None:
        """Delete a session with its tasks. Raise `Missing`."""
        await self._http.answer("DELETE", _path(session_id))

    async def rewind(self, session_id: str, before: str) -> dict[str, Any]:
        """Cut a turn and all after it, with one effect however often it is sent: `{session, version, messages}`.

        Raise `Missing` if there is no such session or turn; `Declined` `REWIND_IN_FLIGHT` or `VERSION_MISMATCH` if
        another writer was faster. Nothing is changed then.
        """
        return await self._once(_path(session_id, "/rewind"), {"before": before})

    async def undo_rewind(self, session_id: str) -> dict[str, Any]:
        """Undo the newest rewind, with one effect however often it is sent: `{session, version, messages}`.

        Raise `Declined` `NOTHING_TO_UNDO`, `TOO_LATE_TO_UNDO` or `REWIND_IN_FLIGHT`; `Missing`.
        """
        return await self._once(_path(session_id, "/undo_rewind"), {})

    async def fork(self, session_id: str, *, before: str = "", title: str = "") -> dict[str, Any]:
        """Create a session with the effective history, or its part before a turn. Raise `Missing`."""
        body = {"id": secrets.token_hex(16), "before": before, "name": title}
        return await self._once(_path(session_id, "/fork"), {name: value for name, value in body.items() if value})

    def export(self, session_id: str, form: str = "ndjson") -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open an export of the session: ndjson, which `import_file` reads, json or markdown. Raise `Missing`."""
        return self._http.download(_path(session_id, f"/export?format={form}"))

    async def import_file(self, content: AsyncIterator[bytes], new_id: str = "") -> dict[str, Any]:
        """Create the session of an exported file, under its own id or `new_id`: `{session, entries, tasks, events}`.

        Raise `Declined` if the file is incomplete or something in it exists already; nothing is changed then.
        """
        query = "?" + urlencode({"id": new_id}) if new_id else ""
        path = f"/api/sessions/import{query}"
        answer = await self._http.upload(path, content, "application/x-ndjson", timeout=_IMPORT)
        found = members(self._http.url, answer, "data")["data"]
        return members(self._http.url, found, "session", "entries", "tasks", "events")

    async def watch(self, session_id: str) -> AsyncGenerator[Watched]:
        """Yield a snapshot and the changes of a session until it is deleted, reconnecting with a new snapshot. Raise
        `Missing`."""
        pauses = Pauses(self._give_up_after)
        seen = False
        while True:
            try:
                async with aclosing(self._watched(_path(session_id, "/watch"))) as stream:
                    rejoins = seen
                    async for watched in stream:
                        pauses.reset()
                        seen = True
                        yield replace(watched, rejoined=rejoins)
                        rejoins = False
                await pauses.wait(Unreachable("The server closed the stream.", reason="STREAM_CLOSED"))
            except Missing:
                if not seen:
                    raise
                return
            except Unreachable as error:
                await pauses.wait(error)

    async def _watched(self, path: str) -> AsyncGenerator[Watched]:
        url = self._http.url
        async with self._http.stream("GET", path) as stream:
            async for event in stream.events:
                data = members(url, parsed(url, event.data))
                if event.name == "error":
                    raise failure_of_event(data)
                if not event.name:
                    raise not_understood(url, "with JSON that is not a session change")
                yield Watched(event.name, data)

    async def _once(self, path: str, body: object) -> dict[str, Any]:
        """Make a call under one idempotency key, repeated while the server cannot be reached."""
        pauses = Pauses(self._give_up_after)
        key = {"Idempotency-Key": secrets.token_hex(16)}
        while True:
            try:
                return await self._http.data("POST", path, body=body, headers=key)
            except Unreachable as error:
                await pauses.wait(error)


def _path(session_id: str, rest: str = "") -> str:
    return f"/api/sessions/{quote(session_id, safe='')}{rest}"
