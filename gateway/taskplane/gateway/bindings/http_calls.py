"""Calls made of HTTP requests: the same for every binding over HTTP."""

from functools import partial

from taskplane.gateway.a2a.call import Call
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.disconnect import cancel_on_disconnect
from taskplane.gateway.web.http import Headers, Request


def call_of(plane: Plane, request: Request, caller: Caller, version: str) -> Call:
    """Return the call of a request to the agent in its path, in this A2A version. Its body must have been read."""
    return Call(
        plane,
        caller,
        request,
        path=agent_name(request),
        version=version,
        size=request.size,
        accepted=request.accepted,
        waiting=partial(cancel_on_disconnect, request, plane.streams),
        # The paths with a namespace are those of kagent. Its clients know growing texts without naming them.
        grows="namespace" in request.arguments,
        starting_after=_starting_after(request) if request.scope["query_string"] else "",
    )


def agent_name(request: Request) -> str:
    """Return the name of the agent in the path; empty for the default one."""
    arguments = request.arguments
    if "namespace" in arguments:
        return f"{arguments['namespace']}/{arguments['agent']}"
    return arguments.get("agent", "")


def _starting_after(request: Request) -> str:
    """Return the cursor in the query. An EventSource repeats the URL of its first GET, and names a later event in the
    header (WHATWG HTML, section 9.2): there the header wins."""
    if request.method == "GET" and request.header(b"last-event-id"):
        return ""
    return request.query.get("starting_after", "")


def asked_version(request: Request) -> str:
    """Return the A2A version that the client names; empty if it names none. The header wins over the query (A2A 1.0
    section 3.6)."""
    asked = request.header(b"a2a-version")
    if not asked and request.scope["query_string"]:
        asked = request.query.get("A2A-Version", "")
    return asked


def echo(call: Call) -> Headers:
    """Return the header that names the extensions in use, as the version of the call spells it."""
    if not call.used:
        return []
    return [(call.rules.extensions_header, ", ".join(call.used).encode())]
