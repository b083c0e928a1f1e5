"""The agent card over HTTP (A2A 1.0 section 8.2): the version of the card that the client reads, and caching."""

from taskplane.gateway.a2a.card import public
from taskplane.gateway.a2a.lookup import find
from taskplane.gateway.bindings.http_calls import agent_name, asked_version
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.versions import version_of
from taskplane.gateway.web.etags import if_modified
from taskplane.gateway.web.http import Headers, Reply, Request, bytes_reply
from taskplane.runtime import json_lines


async def well_known(plane: Plane, request: Request) -> Reply:
    """Return the card of the agent in the path, or of the default agent. Raise NotFound `AGENT_NOT_FOUND`."""
    agent = await find(plane, agent_name(request))
    style = "1.0" if version_of(asked_version(request)) == "1.0" else plane.settings.card_style
    base = request.scope["raw_path"].decode("latin-1").partition("/.well-known/")[0]
    body = json_lines.encode(await public(plane, agent, base, style))
    caching: Headers = [
        (b"vary", b"A2A-Version"),
        (b"cache-control", b"public, max-age=%d" % plane.settings.card_age),
    ]
    return if_modified(request, bytes_reply(200, body), agent.seen_at, caching)
