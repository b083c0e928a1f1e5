"""A client of the artifacts of tasks, under `/api/tasks`."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

from taskplane.client.failures import Declined, Missing
from taskplane.client.http import Http


class Artifacts:
    """The artifacts of the tasks of one server."""

    def __init__(self, http: Http) -> None:
        """Read through `http`, inside its `async with`."""
        self._http = http

    async def of_task(self, task_id: str) -> list[dict[str, Any]]:
        """Return the artifacts of a task with their times, in the order in which they were begun. Raise `Missing`."""
        return await self._http.objects(_path(task_id))

    async def named(self, task_id: str, name: str) -> dict[str, Any]:
        """Return the artifact with this id or, if there is only one, with this name; for an empty name the only one.
        Raise `Missing`; Declined `WHICH_ARTIFACT`."""
        known = await self.of_task(task_id)
        found = [one for one in known if one["artifactId"] == name] or [
            one for one in known if not name or one.get("name") == name
        ]
        if len(found) > 1:
            raise Declined(
                f"Task {task_id} has {len(found)} such artifacts.",
                reason="WHICH_ARTIFACT",
                suggestion="name one of: " + ", ".join(str(one["artifactId"]) for one in found),
            )
        if not found:
            raise Missing(f"Task {task_id} has no artifact {name}.".replace("  ", " "), reason="ARTIFACT_NOT_FOUND")
        return found[0]

    @asynccontextmanager
    async def content(
        self, task_id: str, name: str, version: int = 0
    ) -> AsyncGenerator[tuple[str, AsyncIterator[bytes]]]:
        """Open an artifact as a file, and yield its name and its pieces; it is found as `named` finds it, and
        by its id without a list. `version`: from 1; 0: the newest one. Raise `Missing`; Declined `WHICH_ARTIFACT`."""
        query = f"?version={version}" if version else ""
        async with AsyncExitStack() as stack:
            pieces: AsyncIterator[bytes] | None = None
            title = name
            if name:
                with suppress(Missing):
                    pieces = await stack.enter_async_context(self._http.download(_path(task_id, name) + query))
            if pieces is None:
                found = await self.named(task_id, name)
                title = str(found.get("name") or found["artifactId"])
                path = _path(task_id, found["artifactId"]) + query
                pieces = await stack.enter_async_context(self._http.download(path))
            yield title, pieces


def _path(task_id: str, *more: str) -> str:
    return "/".join(["/api/tasks", quote(task_id, safe=""), "artifacts", *[quote(one, safe="") for one in more]])
