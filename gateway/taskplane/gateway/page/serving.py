"""The routes of the web page. All of it is the same for everybody: the caller is known only under /api."""

from typing import Final

from starlette.responses import Response

from taskplane.gateway.built_page import File, to_root
from taskplane.gateway.errors import MethodNotAllowed, NoSuchRoute
from taskplane.gateway.page.unbuilt import explanation
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.etags import if_changed
from taskplane.gateway.web.http import Headers, Reply, Request, bytes_reply
from taskplane.runtime.errors import NotFound

_HTML: Final = b"text/html; charset=utf-8"
# Texts of agents are shown in the page: nothing but its own scripts may run, and nothing is loaded from elsewhere.
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    b"media-src 'self' blob:; connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
_SAFETY: Final[Headers] = [
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
]
_REVALIDATED: Final = (b"cache-control", b"no-cache")
_CACHING: Final[Headers] = [_REVALIDATED, (b"vary", b"Accept"), *_SAFETY]
_FOR_EVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")


async def root(plane: Plane, request: Request) -> Reply:
    """Return the page to a browser. Raise MethodNotAllowed for other clients, which POST to this path."""
    if not _is_browser(request):
        raise MethodNotAllowed(["POST"])
    return await document(plane, request)


async def document(plane: Plane, request: Request) -> Reply:
    """Return the document of the page or, if the page was not built, one that gives the reason and the alternatives."""
    return if_changed(request, bytes_reply(200, await _document(plane, request), _HTML), caching=_CACHING)


async def nowhere(plane: Plane, request: Request) -> Reply:
    """Return the document to a browser, which shows that it has no such place. Raise NotFound `NO_SUCH_ROUTE` for other
    clients and for what can only be a file."""
    if not _is_browser(request) or request.arguments["path"].partition("/")[0] == "assets":
        raise NoSuchRoute
    return bytes_reply(404, await _document(plane, request), _HTML, _CACHING)


async def _document(plane: Plane, request: Request) -> bytes:
    path: str = request.scope["raw_path"].decode("latin-1")
    return await explanation(plane, to_root(path)) if plane.page.why_not else plane.page.document(path)


def _is_browser(request: Request) -> bool:
    return "text/html" in request.header(b"accept")


async def asset(plane: Plane, request: Request) -> Reply:
    """Return a built file; its name changes with its content. Raise NotFound `NO_SUCH_FILE`."""
    found = plane.page.assets.get(request.arguments["file"])
    if found is None:
        raise NotFound(
            "the page has no such file",
            reason="NO_SUCH_FILE",
            suggestion="load the page again; the server may have a newer version",
        )
    return _reply(request, found, _FOR_EVER)


async def licenses(plane: Plane, request: Request) -> Reply:
    """Return the licences of the page's libraries. Raise NotFound `NO_SUCH_FILE` if it was not built."""
    if not plane.page.licenses.content:
        raise NotFound("the page was not built", reason="NO_SUCH_FILE")
    return _reply(request, plane.page.licenses, _REVALIDATED)


def _reply(request: Request, file: File, caching: tuple[bytes, bytes]) -> Response:
    headers: Headers = [caching, (b"vary", b"Accept-Encoding"), *_SAFETY]
    if file.gzipped and _takes_gzip(request):
        reply = bytes_reply(200, file.gzipped, file.media_type, [(b"content-encoding", b"gzip")])
        return if_changed(request, reply, file.tag[:-1] + b'-gzip"', headers)
    return if_changed(request, bytes_reply(200, file.content, file.media_type), file.tag, headers)


def _takes_gzip(request: Request) -> bool:
    """Return whether Accept-Encoding names gzip with a weight other than 0 (RFC 9110, section 12.5.3)."""
    codings = [one.replace(" ", "").partition(";") for one in request.headers(b"accept-encoding")]
    return any(name == "gzip" and weight.rstrip("0.") != "q=" for name, _, weight in codings)
