"""The download of an artifact under /api, streamed from the store."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Final

from starlette.responses import Response

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.errors import error_api
from taskplane.gateway.plane import Plane
from taskplane.gateway.tasks.artifact_content import as_json, contiguous, single_value
from taskplane.gateway.web import etags, ranges
from taskplane.gateway.web.http import JSON, Headers, Reply, Request, attachment, bytes_reply, empty_reply, json_reply
from taskplane.gateway.web.piecewise import PieceStream
from taskplane.runtime import logs
from taskplane.runtime.errors import OutOfRange
from taskplane.runtime.validation import invalid

# The forms with content that is sent unchanged, so that a range of it can be sent.
_CONTIGUOUS: Final = frozenset({pb.ARTIFACT_FORM_TEXT, pb.ARTIFACT_FORM_RAW})

# A task has fewer events.
_MOST_VERSIONS: Final = 2**31 - 1

_Responses = AsyncIterator[pb.ReadArtifactResponse]


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the content of one artifact under its own media type, with headers that keep a browser from rendering it.

    `version` names an older one by its number, from 1. Texts or bytes are joined, and a range of them may be asked for;
    a single data part is JSON, and so is the whole artifact in every other case. Raise NotFound; Exhausted
    `TOO_MANY_STREAMS`, `TOO_MANY_READS`.
    """
    with ExitStack() as held:
        held.callback(plane.streams.take(caller.principal).release)
        version = _version(request)
        asked = ranges.parse(request.header(b"range"))
        head, responses = await _read(plane, request, held, version, asked.offset if asked is not None else 0)
        tag = f'"{head.digest.hex()[:32]}"'.encode()
        if asked is not None and (head.form not in _CONTIGUOUS or request.raw(b"if-range") not in (b"", tag)):
            asked = None
            head, responses = await _read(plane, request, held, version, 0)
            tag = f'"{head.digest.hex()[:32]}"'.encode()
        headers = _headers(head, tag)
        if etags.is_current(request, tag):
            reply = empty_reply(304)
            reply.raw_headers = headers
            return reply
        if head.form == pb.ARTIFACT_FORM_DATA:
            media_type = head.media_type.encode() or JSON
            return bytes_reply(200, await single_value(responses, plane.worker), media_type, headers)
        status = 200
        if head.form in _CONTIGUOUS:
            places = range(head.size)
            if asked is not None:
                found = asked.within(head.size)
                if found is None:
                    return _unsatisfiable(head.size)
                status, places = 206, found
                headers.append((b"content-range", b"bytes %d-%d/%d" % (places[0], places[-1], head.size)))
            headers += [
                (b"content-type", _media_type(head)),
                (b"content-length", b"%d" % len(places)),
                (b"accept-ranges", b"bytes"),
            ]
            pieces = contiguous(responses, len(places))
        else:
            headers.append((b"content-type", JSON))
            pieces = as_json(head.artifact, responses, plane.worker)
        return PieceStream(
            pieces, held=held.pop_all(), write_timeout=plane.settings.write_timeout, headers=headers, status=status
        )


def _version(request: Request) -> int:
    """Return the number of the version that is asked for; 0: the newest one. Raise Invalid."""
    if "version" not in request.query:
        return 0
    version = request.number("version", 0)
    if not 1 <= version <= _MOST_VERSIONS:
        raise invalid({"version": "must be a whole number of at least 1"})
    return version


async def _read(
    plane: Plane, request: Request, held: ExitStack, version: int, offset: int
) -> tuple[pb.ArtifactHead, _Responses]:
    """Begin to read the artifact from an offset; the reading ends when `held` is closed."""
    asked = pb.ReadArtifactRequest(
        task_id=request.arguments["task"], artifact_id=request.arguments["artifact"], offset=offset, version=version
    )
    call = plane.tasks.ReadArtifact(asked)
    held.callback(call.cancel)
    responses = aiter(call)
    return (await anext(responses)).head, responses


def _unsatisfiable(size: int) -> Response:
    error = OutOfRange(f"the artifact has {size} bytes", reason="RANGE_NOT_SATISFIABLE")
    return json_reply(416, error_api(error, logs.request_id.get()), [(b"content-range", b"bytes */%d" % size)])


def _media_type(head: pb.ArtifactHead) -> bytes:
    if head.form == pb.ARTIFACT_FORM_RAW:
        return head.media_type.encode() or b"application/octet-stream"
    media_type = head.media_type or "text/plain"
    if media_type.startswith("text/") and "charset" not in media_type:
        media_type += "; charset=utf-8"
    return media_type.encode()


def _headers(head: pb.ArtifactHead, tag: bytes) -> Headers:
    return [
        attachment(head.filename or head.artifact.name or "artifact"),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
        (b"etag", tag),
        (b"taskplane-artifact-version", b"%d/%d" % (head.version, head.versions)),
        *etags.PRIVATE,
    ]
