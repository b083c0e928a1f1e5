"""Liveness, readiness and metrics of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import grpc
from grpc_health.v1 import health_pb2

from taskplane.gateway.http import Content, Reply, Request, json_reply
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.metrics import exposition

_DEADLINE: Final = 1.0

Probe = Callable[[], Awaitable[bool]]


async def healthz(plane: Plane, request: Request) -> Reply:
    """Answer 200 as long as this process answers at all."""
    return json_reply(200, {"status": "ok"})


async def readyz(plane: Plane, request: Request) -> Reply:
    """Answer 200 if every service behind is ready, 503 if one is not or this process drains."""
    names = list(plane.probes)
    answers = await asyncio.gather(*(_passes(plane.probes[name]) for name in names))
    services = dict(zip(names, answers, strict=True))
    ready = all(answers) and not plane.draining()
    found = {"ready": ready, "draining": plane.draining(), "services": services}
    return json_reply(200 if ready else 503, found)


async def metrics(plane: Plane, request: Request) -> Reply:
    """Return the metrics of this process in the Prometheus text format."""
    body, media_type = exposition()
    return Content(200, body, media_type.encode())


def probes(channels: Mapping[str, grpc.aio.Channel]) -> dict[str, Probe]:
    """Return a probe of the service behind each channel, by the gRPC health protocol."""
    return {name: _probe(channel) for name, channel in channels.items()}


def _probe(channel: grpc.aio.Channel) -> Probe:
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )

    async def probe() -> bool:
        answer = await check(health_pb2.HealthCheckRequest(), timeout=_DEADLINE)
        return answer.status == health_pb2.HealthCheckResponse.SERVING

    return probe


async def _passes(probe: Probe) -> bool:
    try:
        async with asyncio.timeout(_DEADLINE):
            return await probe()
    except (PlaneError, TimeoutError):
        return False
