"""The route that imports an exported session."""

from contextlib import aclosing
from typing import Final

from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination.importing import Lines, import_session
from taskplane.gateway.kagent.envelope import data_reply
from taskplane.gateway.kagent.shapes import session_json
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.export_format import MEDIA_TYPE, line_error
from taskplane.gateway.web.http import Reply, Request
from taskplane.gateway.web.uploads import Body
from taskplane.runtime.errors import Invalid

# Bytes of the first line, which is read before the import has a slot.
_MAX_HEADER: Final = 1024 * 1024
_ANOTHER: Final = "choose a whole, unchanged file that Export saved as NDJSON, or that `taskplane session export` wrote"
# The reasons that have another one, or none: a task or an entry that is too large stays so.
_SUGGESTIONS: Final = {
    "UNKNOWN_VERSION": "import it into a server of the same version as the exporting one",
    "LINE_TOO_LONG": f"{_ANOTHER}; TASKPLANE_GATEWAY_MAX_IMPORT_LINE sets the limit of a line",
    "TASK_TOO_LARGE": "",
    "ENTRY_TOO_LARGE": "",
}


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Create the session of the lines in the body, under its own id or under the parameter `id`. Raise as
    `import_session` does."""
    _check_type(request)
    with plane.uploads.importing(caller.principal):
        try:
            async with aclosing(_lines(plane, request)) as lines:
                made = await import_session(plane, lines, request.query.get("id", ""))
        except Invalid as error:
            if "line" in error.metadata:
                error.suggestion = error.suggestion or _SUGGESTIONS.get(error.reason, _ANOTHER)
            raise
    data = {"session": session_json(made.session), **made.counts}
    return data_reply(data, "Successfully imported session", status=201)


def _check_type(request: Request) -> None:
    request.check_coding()
    declared = request.header(b"content-type").partition(";")[0].strip().lower()
    if declared != MEDIA_TYPE:
        raise Invalid(
            f"content type {declared or 'missing'} is not supported",
            reason="CONTENT_TYPE_NOT_SUPPORTED",
            suggestion=f"send Content-Type: {MEDIA_TYPE}",
        )


async def _lines(plane: Plane, request: Request) -> Lines:
    """Yield the lines of the body with their numbers and line feeds as they arrive; the last one may have no line feed.
    Raise BodyTooLarge; BodyTooSlow; Invalid `LINE_TOO_LONG`; ClientGone."""
    settings = plane.settings
    number = 0
    rest = bytearray()
    too_large = f"{_ANOTHER}; TASKPLANE_GATEWAY_MAX_IMPORT sets the limit of a file"
    body = Body(request, settings.max_import, settings.import_upload_timeout, settings, too_large)
    async for chunk in body.parts():
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            number += 1
            rest += piece
            rest += b"\n"
            line = bytes(rest)
            rest.clear()
            yield number, line
        rest += pieces[-1]
        most = settings.max_import_line if number else min(settings.max_import_line, _MAX_HEADER)
        if len(rest) > most:
            raise line_error(number + 1, f"is longer than {most} bytes", "LINE_TOO_LONG")
    if rest:
        yield number + 1, bytes(rest)
