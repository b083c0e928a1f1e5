"""The table of routes. No path redirects; a slash at the end of a path makes no difference.

Starlette's router tries one route after the other: 12 to 18 microseconds and about 60 Python calls for a request here,
1 to 4 and 8 in this table. It also matches decoded paths, so that an id with an encoded slash would be two parts.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import unquote

from taskplane.api.reserved_names import RESERVED
from taskplane.gateway import probes
from taskplane.gateway.a2a.card import JSONRPC_PATH
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.bindings import agent_card, jsonrpc, rest, rest_v0_3
from taskplane.gateway.errors import MethodNotAllowed, NoSuchRoute
from taskplane.gateway.kagent import agents, session_list, sessions, tasks
from taskplane.gateway.ops import operators
from taskplane.gateway.page import config as ui_config
from taskplane.gateway.page import serving
from taskplane.gateway.plane import Plane
from taskplane.gateway.sessions import effective_history, messages, rewinds, task_infos
from taskplane.gateway.sessions import exporting as session_export
from taskplane.gateway.sessions import importing as session_import
from taskplane.gateway.sessions import watch as session_watch
from taskplane.gateway.tasks import artifact_download, artifacts
from taskplane.gateway.tasks import log as task_log
from taskplane.gateway.web.http import Reply, Request


@dataclass(frozen=True, slots=True)
class PublicRoute:
    """A route that needs no authentication."""

    method: str
    path: str
    handler: Callable[[Plane, Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    """A route for authenticated callers; the policies of the services decide about permissions. `writes`: only for
    callers that may write. `operates`: only for callers that may operate. `rest`: the version of a path of the REST
    binding, with its form of errors."""

    method: str
    path: str
    handler: Callable[[Plane, Request, Caller], Awaitable[Reply]]
    writes: bool = False
    operates: bool = False
    rest: str = ""


_CARDS: Final = ("agent-card.json", "agent.json")
# The base paths of an agent; the first one is that of the default agent.
_BASES: Final = ("", "/agents/{agent}", "/api/a2a/{namespace}/{agent}")
# The paths of the REST binding below each base, those of a tenant after the literal ones (a2a A1, H14).
_REST: Final = (
    *(("0.3", path) for path in rest_v0_3.PATHS),
    *(("1.0", path) for path in rest.PATHS),
    *(("1.0", (method, f"/{{tenant}}{path}", handler)) for method, path, handler in rest.PATHS),
)

# The places of the web page; its script knows which is which.
_PAGE: Final = (
    "/ui",
    "/ui/sessions/{session}",
    "/ui/agents",
    "/ui/agents/{agent}",
    "/ui/ops",
    "/ui/ops/tasks/{task}",
)

ROUTES: Final[Sequence[PublicRoute | Route]] = (
    PublicRoute("GET", "/healthz", probes.healthz),
    PublicRoute("GET", "/readyz", probes.readyz),
    PublicRoute("GET", "/metrics", probes.metrics),
    *(PublicRoute("GET", f"{base}/.well-known/{name}", agent_card.well_known) for base in _BASES for name in _CARDS),
    PublicRoute("GET", "/", serving.root),
    *(PublicRoute("GET", path, serving.document) for path in _PAGE),
    PublicRoute("GET", "/ui/assets/{file}", serving.asset),
    PublicRoute("GET", "/ui/licenses.txt", serving.licenses),
    PublicRoute("GET", "/ui/{path*}", serving.nowhere),
    PublicRoute("GET", "/api/ui-config", ui_config.serve),
    PublicRoute("GET", "/api/agents/{agent}", agents.get),
    *(Route("POST", path, jsonrpc.serve) for base in _BASES for path in (base or "/", base + JSONRPC_PATH)),
    Route("POST", "/api/tasks", tasks.put, writes=True),
    Route("GET", "/api/tasks/{task}", tasks.get),
    Route("DELETE", "/api/tasks/{task}", tasks.delete, writes=True),
    Route("GET", "/api/tasks/{task}/messages", messages.of_task),
    Route("GET", "/api/tasks/{task}/artifacts", artifacts.list_all),
    Route("GET", "/api/tasks/{task}/artifacts/{artifact}", artifact_download.serve),
    Route("GET", "/api/tasks/{task}/events", task_log.serve),
    Route("GET", "/api/ops/overview", operators.overview, operates=True),
    Route("GET", "/api/ops/tasks", operators.list_tasks, operates=True),
    Route("GET", "/api/ops/tasks/{task}", operators.get, operates=True),
    Route("DELETE", "/api/ops/tasks/{task}", operators.delete, writes=True, operates=True),
    Route("GET", "/api/ops/tasks/{task}/events", operators.events, operates=True),
    Route("POST", "/api/ops/tasks/{task}/cancel", operators.cancel, writes=True, operates=True),
    Route("GET", "/api/sessions", session_list.serve),
    Route("POST", "/api/sessions/import", session_import.serve, writes=True),
    Route("GET", "/api/sessions/{session}/export", session_export.serve),
    Route("POST", "/api/sessions", sessions.create, writes=True),
    Route("GET", "/api/sessions/{session}", sessions.get),
    Route("PUT", "/api/sessions/{session}", sessions.update, writes=True),
    Route("PATCH", "/api/sessions/{session}", sessions.update, writes=True),
    Route("DELETE", "/api/sessions/{session}", sessions.delete, writes=True),
    Route("GET", "/api/sessions/{session}/tasks", tasks.of_session),
    Route("GET", "/api/sessions/{session}/messages", messages.of_session),
    Route("GET", "/api/sessions/{session}/task-infos", task_infos.list_all),
    Route("GET", "/api/sessions/{session}/stats", task_infos.stats),
    Route("GET", "/api/sessions/{session}/watch", session_watch.serve),
    Route("GET", "/api/sessions/{session}/effective_history", effective_history.get),
    Route("PUT", "/api/sessions/{session}/effective_history", effective_history.push, writes=True),
    Route("GET", "/api/sessions/{session}/state", effective_history.state),
    Route("POST", "/api/sessions/{session}/rewind", rewinds.rewind, writes=True),
    Route("POST", "/api/sessions/{session}/undo_rewind", rewinds.undo, writes=True),
    Route("POST", "/api/sessions/{session}/fork", rewinds.fork, writes=True),
    Route("POST", "/api/sessions/{session}/events", sessions.add_event, writes=True),
    *(
        Route(method, base + path, handler, rest=version)
        for base in _BASES
        for version, (method, path, handler) in _REST
    ),
)

# With a star it may have slashes.
_PART: Final = re.compile(r"\{(\w+)(\*?)\}")
# In the REST binding a verb is no part of an id (a2a K5).
_ID: Final = "(?=[^/])[^/:]*(?::(?!(?:cancel|subscribe)(?![^/:]))[^/:]*)*"
_BELOW_AGENT: Final = re.compile("(?:/agents/[^/]+|/api/a2a/[^/]+/[^/]+)(?=/)")
_REST_BEGINS: Final[Mapping[str, str]] = {
    re.split("[/:]", path[1:])[0]: version for version, (_, path, _) in _REST if not path.startswith("/{")
}
_Methods = dict[str, PublicRoute | Route]


class RouteTable:
    """A lookup of routes. Paths are matched as they were sent and their named parts are decoded afterwards, so an id
    may contain any character. A reserved name is no tenant, however it is encoded."""

    def __init__(self, routes: Sequence[PublicRoute | Route] = ROUTES) -> None:
        self._exact: dict[str, _Methods] = {}
        # By first segment, empty for one with a name, and number of segments, 0 for any number.
        self._patterns: dict[tuple[str, int], list[tuple[re.Pattern[str], _Methods]]] = {}
        by_path: dict[str, _Methods] = {}
        for route in routes:
            by_path.setdefault(route.path, {})[route.method] = route
        for path, methods in by_path.items():
            if "{" in path:
                is_rest = any(isinstance(route, Route) and route.rest for route in methods.values())
                pattern = _PART.sub(partial(_pattern, _ID if is_rest else "[^/]+"), path.replace(".", r"\."))
                self._patterns.setdefault(_key(path), []).append((re.compile(pattern), methods))
            else:
                self._exact[path] = methods

    def find(self, method: str, path: str) -> tuple[PublicRoute | Route, Mapping[str, str]]:
        """Return the route and the named parts of the path. Raise NoSuchRoute or MethodNotAllowed."""
        if path.endswith("/") and len(path) > 1:
            path = path[:-1]
        method = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        versions: set[str] = set()
        for methods, arguments in self._matching(path):
            if (route := methods.get(method)) is not None:
                return route, arguments
            allowed |= methods.keys()
            versions |= {found.rest if isinstance(found, Route) else "" for found in methods.values()}
        if not allowed:
            raise NoSuchRoute(rest=_version_of(path))
        raise MethodNotAllowed(sorted(allowed), rest=versions.pop() if len(versions) == 1 else "")

    def _matching(self, path: str) -> Iterator[tuple[_Methods, Mapping[str, str]]]:
        """Yield the routes of a path by method, the literal ones first. They hide no other method of the rest: an id
        may read like a literal part."""
        if (methods := self._exact.get(path)) is not None:
            yield methods, {}
        first, count = path[1:].partition("/")[0], path.count("/")
        for pattern, methods in (
            *self._patterns.get((first, count), ()),
            *self._patterns.get(("", count), ()),
            *self._patterns.get((first, 0), ()),
        ):
            if (match := pattern.fullmatch(path)) is not None:
                arguments = {name: unquote(value) for name, value in match.groupdict().items()}
                if arguments.get("tenant") not in RESERVED:
                    yield methods, arguments


def _key(path: str) -> tuple[str, int]:
    first = path.split("/")[1]
    return "" if "{" in first else first, 0 if "*" in path else path.count("/")


def _pattern(segment: str, part: re.Match[str]) -> str:
    return f"(?P<{part[1]}>{'.+' if part[2] else segment})"


def _version_of(path: str) -> str:
    """Return the version of the REST binding whose paths begin like this one; empty if none does."""
    first, _, _ = _BELOW_AGENT.sub("", path)[1:].partition("/")
    return _REST_BEGINS.get(first.partition(":")[0], "")
