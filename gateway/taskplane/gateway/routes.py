"""The table of routes. No path redirects; a slash at the end of a path makes no difference.

Starlette's router tries one route after the other, with a regular expression each, and anyone may send a path that
makes them slow. It also matches decoded paths, so that an id with an encoded slash would be two parts.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

# Characters of a path: five names of 255 characters, each character up to 12 in a path, and what is between them.
_MAX_PATH: Final = 16 * 1024
# Named parts of a path, `{name}` and `{name}:verb`; with a star, the whole rest of it.
_PART: Final = re.compile(r"\{(\w+)(\*?)\}(:\w+)?")
# In the REST binding a verb is no part of an id (a2a K5).
_VERBS: Final = frozenset({"cancel", "subscribe"})
_REST_BEGINS: Final[Mapping[str, str]] = {
    re.split("[/:]", path[1:])[0]: version for version, (_, path, _) in _REST if not path.startswith("/{")
}
_Methods = dict[str, PublicRoute | Route]


@dataclass(frozen=True, slots=True)
class _Part:
    """A named part of a path. `verb`: what follows it in its segment. `verbless`: it has no verb of REST in it."""

    name: str
    verb: str
    verbless: bool

    def read(self, segment: str) -> str:
        """Return the part of a segment, still encoded; empty if the segment does not fit."""
        if self.verb:
            if not segment.endswith(self.verb):
                return ""
            segment = segment[: -len(self.verb)]
        if self.verbless and ":" in segment and not _VERBS.isdisjoint(segment.split(":")[1:]):
            return ""
        return segment


class _Place:
    """The paths that begin alike: what may follow, and the routes that end here by method."""

    __slots__ = ("literal", "methods", "named", "rest")

    def __init__(self) -> None:
        self.literal: dict[str, _Place] = {}
        self.named: dict[_Part, _Place] = {}
        self.methods: _Methods = {}
        self.rest: tuple[str, _Methods] | None = None


class RouteTable:
    """A lookup of routes. Paths are matched as they were sent and their named parts are decoded afterwards, so an id
    may contain any character. A reserved name is no tenant, however it is encoded.

    The time of a lookup grows with the length of a path alone, and not with its content: anyone may send one.
    """

    def __init__(self, routes: Sequence[PublicRoute | Route] = ROUTES) -> None:
        # Most calls come to a path without named parts.
        self._exact = {(route.method, route.path): route for route in routes if "{" not in route.path}
        self._root = _Place()
        self._deepest = 0
        for route in routes:
            self._add(route)

    def find(self, method: str, path: str) -> tuple[PublicRoute | Route, Mapping[str, str]]:
        """Return the route and the named parts of the path. Raise NoSuchRoute, also for a path of more than 16,384
        characters, or MethodNotAllowed."""
        if path.endswith("/") and len(path) > 1:
            path = path[:-1]
        method = "GET" if method == "HEAD" else method
        if (route := self._exact.get((method, path))) is not None:
            return route, {}
        before, *segments = path[:_MAX_PATH].split("/", self._deepest + 1)
        if before or len(path) > _MAX_PATH:
            raise NoSuchRoute(rest=_version_of(segments))
        allowed: set[str] = set()
        versions: set[str] = set()
        for methods, encoded in _matching(self._root, segments):
            arguments = {name: unquote(value) for name, value in encoded}
            if arguments.get("tenant") in RESERVED:
                continue
            if (route := methods.get(method)) is not None:
                return route, arguments
            allowed |= methods.keys()
            versions |= {found.rest if isinstance(found, Route) else "" for found in methods.values()}
        if not allowed:
            raise NoSuchRoute(rest=_version_of(segments))
        raise MethodNotAllowed(sorted(allowed), rest=versions.pop() if len(versions) == 1 else "")

    def _add(self, route: PublicRoute | Route) -> None:
        segments = route.path[1:].split("/")
        self._deepest = max(self._deepest, len(segments))
        place, verbless = self._root, isinstance(route, Route) and bool(route.rest)
        for segment in segments:
            if (named := _PART.fullmatch(segment)) is None:
                place = place.literal.setdefault(segment, _Place())
            elif named[2]:
                place.rest = place.rest or (named[1], {})
                place.rest[1][route.method] = route
                return
            else:
                place = place.named.setdefault(_Part(named[1], named[3] or "", verbless), _Place())
        place.methods[route.method] = route


_Encoded = tuple[tuple[str, str], ...]


def _matching(
    place: _Place, segments: Sequence[str], read: _Encoded = (), at: int = 0
) -> Iterator[tuple[_Methods, _Encoded]]:
    """Yield the routes of a path by method with its named parts, those with literal segments first. They hide no other
    method of the others: an id may read like a literal segment."""
    if at == len(segments):
        if place.methods:
            yield place.methods, read
        return
    segment = segments[at]
    if (found := place.literal.get(segment)) is not None:
        yield from _matching(found, segments, read, at + 1)
    for part, below in place.named.items():
        if value := part.read(segment):
            yield from _matching(below, segments, (*read, (part.name, value)), at + 1)
    if place.rest is not None and (value := "/".join(segments[at:])):
        name, methods = place.rest
        yield methods, (*read, (name, value))


def _version_of(segments: Sequence[str]) -> str:
    """Return the version of the REST binding whose paths begin like this one, below a tenant or not; empty if none
    does. Empty segments and encodings make no difference."""
    written = [unquote(segment) for segment in segments if segment]
    below = written[2 if written[:1] == ["agents"] else 4 if written[:2] == ["api", "a2a"] else 0 :]
    # Only what follows a tenant may begin later.
    firsts = [re.split("[/:]", segment, maxsplit=1)[0] for segment in below]
    found = [_REST_BEGINS.get(first, "") for first in firsts[: 1 if firsts and below[0] in RESERVED else None]]
    return next(filter(None, found), "")
