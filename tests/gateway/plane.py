"""A gateway with a real plane, all in this process, and the HTTP calls of tests."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import httpx
from tests.executor.plane import Stores, open_stores

from taskplane.agents.agent import Agent
from taskplane.agents.demo import Demo
from taskplane.agents.loading import Agents
from taskplane.api import growing_text
from taskplane.executor import servicer
from taskplane.executor.composition import ExecutorService, open_executor
from taskplane.executor.settings import ExecutorSettings
from taskplane.gateway.auth.authenticator import SCHEMES, Configured
from taskplane.gateway.bindings.grpc import GrpcBinding
from taskplane.gateway.server import Gateway, open_gateway
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.channel import InProcessChannel
from taskplane.runtime.server import Serving, serving
from taskplane.runtime.services import Services

Json = dict[str, Any]
JSON_TYPE = {"content-type": "application/json"}


@dataclass(frozen=True)
class Event:
    """One server-sent event: its id and name (empty without one) and its data."""

    id: str
    name: str
    data: Any

    @property
    def result(self) -> Json:
        assert "result" in self.data, self.data
        result: Json = self.data["result"]
        return result


class Plane:
    """A gateway, the services behind it, an HTTP client, and a gRPC channel with its server."""

    def __init__(
        self,
        gateway: Gateway,
        http: httpx.AsyncClient,
        behind: "Behind",
        channel: grpc.aio.Channel | None = None,
        public: Serving | None = None,
    ) -> None:
        self.gateway = gateway
        self.http = http
        self.behind = behind
        self._channel = channel
        self._public = public

    @property
    def channel(self) -> grpc.aio.Channel:
        assert self._channel is not None
        return self._channel

    @property
    def public(self) -> Serving:
        assert self._public is not None
        return self._public

    async def rpc(self, method: str, params: Any, *, path: str = "/", **headers: str) -> Json:
        """Return the whole JSON-RPC response."""
        reply = await self.http.post(path, json=request(method, params), headers=named(headers))
        assert reply.status_code == 200, reply.text
        body: Json = reply.json()
        assert body["jsonrpc"] == "2.0"
        assert body["id"] == "r"
        return body

    async def result(self, method: str, params: Any, *, path: str = "/", **headers: str) -> Any:
        """Return the result of a JSON-RPC call that succeeds."""
        body = await self.rpc(method, params, path=path, **headers)
        assert "result" in body, body
        return body["result"]

    async def error(self, method: str, params: Any, *, path: str = "/", **headers: str) -> Json:
        """Return the error of a JSON-RPC call that fails."""
        body = await self.rpc(method, params, path=path, **headers)
        assert "error" in body, body
        error: Json = body["error"]
        return error

    async def send(self, text: str, *, message: Json | None = None, **configuration: Any) -> Json:
        """Send a 1.0 message, and return the task or the message of the answer."""
        params = {"message": said(text, **(message or {})), "configuration": configuration}
        result = await self.result("SendMessage", params)
        answer: Json = result.get("task") or result["message"]
        return answer

    async def send_0_3(self, text: str, *, message: Json | None = None, **configuration: Any) -> Json:
        """Send a 0.3 message, and return the task or the message of the answer."""
        answer: Json = await self.result(
            "message/send", {"message": said_0_3(text, **(message or {})), "configuration": configuration}
        )
        return answer

    async def at_zero(self, series: str = "taskplane_http_open_streams") -> None:
        """Wait until a time series of `/metrics` is 0; the default is the number of open streams."""
        async with asyncio.timeout(20):
            while f"{series} 0.0" not in (await self.http.get("/metrics")).text.splitlines():
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def stream(
        self, method: str, params: Any, *, path: str = "/", **headers: str
    ) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Yield the events of a stream."""
        body = json.dumps(request(method, params))
        async with self.http.stream("POST", path, content=body, headers={**JSON_TYPE, **named(headers)}) as reply:
            assert reply.status_code == 200
            assert reply.headers["content-type"] == "text/event-stream", await reply.aread()
            yield events(reply)

    async def streamed(self, method: str, params: Any, *, path: str = "/", **headers: str) -> list[Event]:
        """Return all events of a stream that ends."""
        async with asyncio.timeout(20), self.stream(method, params, path=path, **headers) as found:
            return [event async for event in found]


GROWING: Final = {"A2A_Extensions": growing_text.EXTENSION}
"""The header that requests partial messages of growing texts."""


def fresh() -> str:
    """Return a new id."""
    return secrets.token_hex(8)


def request(method: str, params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": "r", "method": method, "params": params}


def named(headers: Mapping[str, str]) -> dict[str, str]:
    """Return header names from keyword arguments."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def said(text: str, **fields: Any) -> Json:
    """Return a 1.0 message of the user."""
    return {"messageId": secrets.token_hex(8), "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def said_0_3(text: str, **fields: Any) -> Json:
    """Return a 0.3 message of the user."""
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": secrets.token_hex(8), "role": "user", "parts": parts, **fields}


async def events(reply: httpx.Response) -> AsyncIterator[Event]:
    """Parse a body of server-sent events strictly: one `data` line each, no unknown field, events end at blank
    lines."""
    event_id = name = data = ""
    async for line in reply.aiter_lines():
        field, _, value = line.partition(": ")
        if line == "":
            assert data, "an event without data"
            yield Event(event_id, name, json.loads(data))
            event_id = name = data = ""
        elif field == "id":
            event_id = value
        elif field == "event":
            name = value
        elif field == "data":
            assert not data, "an event with two data lines"
            data = value
        else:
            assert line == ": ping" or field == "retry", line


@dataclass(frozen=True)
class Behind:
    """The stores behind a gateway, and an executor with its service."""

    stores: Stores
    executor: ExecutorService
    services: Services


@asynccontextmanager
async def open_behind(
    directory: Path,
    *agents: tuple[str, Agent],
    database_url: str = "",
    events_ttl: float = 0.0,
    tasks: Mapping[str, Any] | None = None,
    executor: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Behind, None]:
    """Open stores and an executor of these agents, by default of the demo. The stores are on SQLite files unless a
    database is given.

    `tasks` and `executor`: further settings of these services.
    """
    services = Services(policy=servicer.POLICY)
    values: Json = {
        "renew_every": 0.3,
        "drain_timeout": 0.5,
        "cancel_grace": 1.0,
        "strict_agents": True,
        **(executor or {}),
    }
    settings = ExecutorSettings(**values)
    found = Agents(dict(agents) or {"demo": Demo()})
    async with (
        open_stores(directory, database_url=database_url, events_ttl=events_ttl, **(tasks or {})) as stores,
        open_executor(
            settings, services, stores.channel, stores.channel, secrets.token_hex(8), agents=found
        ) as service,
    ):
        yield Behind(stores, service, services)


@asynccontextmanager
async def open_front(
    behind: Behind,
    *,
    page: Path | None = None,
    schemes: Sequence[Configured] = SCHEMES,
    runs: grpc.aio.Channel | None = None,
    **settings: Any,
) -> AsyncGenerator[Plane, None]:
    """Open a gateway for the services behind it, with a client. `page`: the folder of another page than the built one;
    `schemes`: the authentication schemes; `runs`: a channel to an executor in another process."""
    values: Json = {"port": 0, "drain_delay": 0.0, "shutdown_timeout": 2, "card_age": 60.0, **settings}
    stores = InProcessChannel(behind.stores.services)
    inside = InProcessChannel(behind.services)

    async def ready() -> bool:
        return True

    a2a, public = GrpcBinding(), Services(policy={})
    a2a.register(public)
    async with (
        serving(public, "127.0.0.1:0", ready=a2a.ready, grace=0.5, connection_age=None) as listening,
        grpc.aio.insecure_channel(listening.address) as channel,
        open_gateway(
            GatewaySettings(**values),
            tasks=stores,
            sessions=stores,
            executor=runs or inside,
            ready={"tasks": ready, "sessions": ready, "executor": ready},
            pacer=behind.services.pacer,
            page=page,
            a2a=a2a,
            grpc_address=listening.address,
            schemes=schemes,
        ) as gateway,
        # Plain HTTP needs no certificates, which take long to load.
        httpx.AsyncClient(base_url=gateway.url, timeout=20.0, verify=False) as http,
    ):
        yield Plane(gateway, http, behind, channel, listening)
    await stores.close()
    await inside.close()


@asynccontextmanager
async def open_all(
    directory: Path, *agents: tuple[str, Agent], database_url: str = "", events_ttl: float = 0.0, **settings: Any
) -> AsyncGenerator[Plane, None]:
    """Open stores, executor and gateway."""
    async with (
        open_behind(directory, *agents, database_url=database_url, events_ttl=events_ttl) as behind,
        open_front(behind, **settings) as plane,
    ):
        yield plane


@asynccontextmanager
async def unhurried(public: Serving) -> AsyncGenerator[grpc.aio.Channel, None]:
    """Open a channel that takes 64 KiB of a reply before it is read, as slow networks do."""
    async with grpc.aio.insecure_channel(public.address, options=[("grpc.http2.bdp_probe", 0)]) as channel:
        yield channel
