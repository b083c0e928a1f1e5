"""The HTTP transport of a client: JSON calls and event streams, with every error as a `Failure`."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from taskplane.client.answers import listed, members, not_understood, parsed, read_json
from taskplane.client.failures import BadUsage, Failure, NotConnected, Unreachable, failure_of_http
from taskplane.client.grpc_port import grpc_port, is_grpc_port
from taskplane.client.sse import SseDecoder, SseEvent

STREAM_SILENCE: Final = 45.0
"""Seconds of silence after which a stream is dead: the server sends at least a comment every 3."""
_CONNECT: Final = 5.0
# Seconds; only a unary send, which waits for its task, may take longer.
CALL_TIMEOUT: Final = 30.0
# A proxy of the environment leads elsewhere.
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class EventStream:
    """A response that streams. `nothing_left`: the server reports that no event will follow (204)."""

    nothing_left: bool
    events: AsyncIterator[SseEvent]


class Http:
    """A connection pool to one server. Credentials go to that server only; redirects are not followed."""

    def __init__(self, url: str, *, token: str = "", user: str = "") -> None:
        """Create a pool for the server at `url`, with or without a path.

        `token` is sent as a bearer token, `user` as `X-User-Id`, which only a development server honours. Proxies of
        the environment are used, except for loopback. Raise BadUsage `BAD_URL` if `url` is not an HTTP URL.
        """
        self.url = url.rstrip("/")
        _check(self.url)
        headers = {"User-Agent": "taskplane"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if user:
            headers["X-User-Id"] = user
        self._client = httpx.AsyncClient(
            headers=httpx.Headers(headers, encoding="utf-8"),
            timeout=httpx.Timeout(CALL_TIMEOUT, connect=_CONNECT),
            mounts={f"all://{host}": None for host in _LOOPBACK},
            # Loading certificates takes longer than most calls, and plain HTTP does not need them.
            verify=urlsplit(self.url).scheme == "https",
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def json(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = CALL_TIMEOUT,
    ) -> Any:
        """Make a call and return its response as JSON; None for an empty one. Raise `Failure` only.

        `timeout` is in seconds without a byte received; None: unlimited.
        """
        return await self._read(
            self._request(method, path, _encoded(body), headers, httpx.Timeout(timeout, connect=_CONNECT))
        )

    async def headers(self, path: str) -> Mapping[str, str]:
        """Make a GET call and return the headers of its response; their names ignore case. Raise `Failure` only."""
        with _as_failure(self.url):
            request = self._client.build_request("GET", self.url + path)
        async with self._answered(request) as response:
            return response.headers

    async def answer(
        self, method: str, path: str, *, body: object = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Make a call below `/api` and return the envelope of its answer, which tells of no error. Raise `Failure`
        only."""
        answer = members(self.url, await self.json(method, path, body=body, headers=headers), "error")
        if answer["error"] is not False:
            raise not_understood(self.url, "with JSON that taskplane does not send")
        return answer

    async def data(
        self, method: str, path: str, *names: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Make the same call and return its data, an object that has at least the named members."""
        answer = await self.answer(method, path, body=body, headers=headers)
        return members(self.url, answer.get("data"), *names)

    async def objects(self, path: str) -> list[dict[str, Any]]:
        """Make the same call and return its data, a list of objects."""
        return listed(self.url, (await self.answer("GET", path)).get("data"))

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, body: object = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[EventStream]:
        """Open an event stream; a response of plain JSON is one event without an id.

        The events end when the server closes the stream in good order, and at once for 204. They raise `Unreachable`
        when the connection breaks or is silent for `STREAM_SILENCE` seconds.
        """
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **(headers or {})}
        timeout = httpx.Timeout(CALL_TIMEOUT, connect=_CONNECT, read=STREAM_SILENCE)
        request = self._request(method, path, _encoded(body), headers, timeout)
        async with self._answered(request) as response:
            yield EventStream(response.status_code == 204, self._events(response))

    @asynccontextmanager
    async def download(self, path: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open the body of a response and yield its pieces. Raise `Failure` only."""
        request = self._client.build_request("GET", self.url + path)
        async with self._answered(request) as response:
            if "content-disposition" not in response.headers:
                raise not_understood(self.url, "with no file")
            yield self._pieces(response)

    def _request(
        self,
        method: str,
        path: str,
        content: bytes | AsyncIterator[bytes] | None,
        headers: Mapping[str, str] | None,
        timeout: httpx.Timeout,
    ) -> httpx.Request:
        headers = {**({"Content-Type": "application/json"} if content is not None else {}), **(headers or {})}
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable() and value == value.strip()):
                raise BadUsage(f"{name} must consist of printable ASCII characters.", reason="BAD_HEADER")
        with _as_failure(self.url):
            return self._client.build_request(
                method, self.url + path, content=content, headers=headers, timeout=timeout
            )

    async def _read(self, request: httpx.Request) -> Any:
        """Return the response as JSON; None for an empty one."""
        async with self._answered(request) as response:
            with _as_failure(self.url):
                content = await response.aread()
        return parsed(self.url, content) if content else None

    @asynccontextmanager
    async def _answered(self, request: httpx.Request) -> AsyncGenerator[httpx.Response]:
        """Yield the response after its headers, and close it in the end. Raise `Failure` if the server refuses."""
        with _as_failure(self.url):
            try:
                response = await self._client.send(request, stream=True)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
                if await is_grpc_port(self.url):
                    raise grpc_port(self.url) from error
                raise
        try:
            if response.status_code >= 400:
                with _as_failure(self.url):
                    await response.aread()
                raise _refused(response)
            if response.is_redirect:
                raise not_understood(self.url, f"with a redirect to {response.headers['location']}")
            yield response
        finally:
            await response.aclose()

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        with _as_failure(self.url):
            async for piece in response.aiter_bytes():
                yield piece

    async def upload(self, path: str, content: AsyncIterator[bytes], media_type: str, *, timeout: float) -> Any:
        """Send a body piece by piece and return the response as JSON, waiting for it up to `timeout` seconds. Raise
        `Failure` only."""
        limits = httpx.Timeout(timeout, connect=_CONNECT)
        return await self._read(self._request("POST", path, content, {"Content-Type": media_type}, limits))

    async def _events(self, response: httpx.Response) -> AsyncIterator[SseEvent]:
        with _as_failure(self.url):
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                content = await response.aread()
                if content:
                    yield SseEvent(content.decode(errors="replace"), "", "")
                return
            decoder = SseDecoder()
            async for chunk in response.aiter_bytes():
                for event in decoder.feed(chunk):
                    yield event


def _encoded(body: object) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which only the escapes of JSON can spell.
        return json.dumps(body, separators=(",", ":")).encode()


@contextmanager
def _as_failure(url: str) -> Generator[None]:
    """Raise errors of httpx as a `Failure`."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise _bad_url(url, str(error)) from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise NotConnected(
            f"No server answers at {url}.",
            reason="UNREACHABLE",
            suggestion="Start a server with `taskplane dev`, or give the address of another one.",
        ) from error
    except httpx.TimeoutException as error:
        raise Unreachable(f"{url} has been silent for too long.", reason="SILENT") from error
    except httpx.HTTPError as error:
        raise Unreachable(f"The connection to {url} broke: {error}", reason="CONNECTION_LOST") from error


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_url(url, str(error)) from error
    if parts.scheme not in ("http", "https") or not host:
        raise _bad_url(url, "it must begin with http:// or https:// and contain a host")


def _bad_url(url: str, why: str) -> BadUsage:
    return BadUsage(f'"{url}" is not the URL of a server: {why}', reason="BAD_URL")


def _refused(response: httpx.Response) -> Failure:
    try:
        body: object = read_json(response.content)
    except ValueError:
        body = None
    after = response.headers.get("retry-after", "")
    return failure_of_http(response.status_code, body, float(after) if after.isdecimal() else None)
