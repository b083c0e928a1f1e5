"""Liveness, readiness and metrics of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import grpc
from grpc_health.v1 import health_pb2

from taskplane.gateway.plane import Plane
from taskplane.gateway.web.http import Reply, Request, bytes_reply, json_reply
from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.runtime.health import WHY, why_not
from taskplane.runtime.metrics import exposition

_DEADLINE: Final = 1.0
# Without executors nobody runs turns; reads and the saves of runtimes need none.
_EXECUTOR: Final = "executor"

Probe = Callable[[], Awaitable[bool]]


async def healthz(plane: Plane, request: Request) -> Reply:
    """Answer 200 as long as this process answers at all."""
    return json_reply(200, {"status": "ok"})


async def readyz(plane: Plane, request: Request) -> Reply:
    """Answer 200 if the stores are ready, 503 if one is not or this process drains, and why. Without executors a ready
    gateway is degraded."""
    names = list(plane.probes)
    answers = dict(zip(names, await asyncio.gather(*(_answer(plane.probes[name]) for name in names)), strict=True))
    stores = all(passes for name, (passes, _) in answers.items() if name != _EXECUTOR)
    ready = stores and not plane.draining()
    found: dict[str, object] = {
        "ready": ready,
        "degraded": ready and not answers[_EXECUTOR][0],
        "draining": plane.draining(),
        "services": {name: passes for name, (passes, _) in answers.items()},
    }
    if reasons := {name: why for name, (_, why) in answers.items() if why}:
        found["why"] = reasons
    return json_reply(200 if ready else 503, found)


async def is_ready(plane: Plane) -> bool:
    """Return whether the stores are ready and this process does not drain. Raise the error of a store that says why it
    is not."""
    stores = [probe() for name, probe in plane.probes.items() if name != _EXECUTOR]
    return all(await asyncio.gather(*stores)) and not plane.draining()


async def metrics(plane: Plane, request: Request) -> Reply:
    """Return the metrics of this process in the Prometheus text format."""
    body, media_type = exposition()
    return bytes_reply(200, body, media_type.encode())


def probes(
    channels: Mapping[str, grpc.aio.Channel], direct: Mapping[str, grpc.aio.Channel] | None = None
) -> dict[str, Probe]:
    """Return a probe of the service behind each channel, by the gRPC health protocol. It raises Unavailable if the
    service cannot be asked, or says why it is not ready.

    `direct`: channels of the same names to ask why, since one to healthy services only gives no call to another.
    """
    return {name: _probe(channel, (direct or {}).get(name)) for name, channel in channels.items()}


def _probe(channel: grpc.aio.Channel, direct: grpc.aio.Channel | None) -> Probe:
    check = _check(channel)
    ask = check if direct is None else _check(direct)

    async def probe() -> bool:
        try:
            return await check()
        except Unavailable:
            if ask is not check:
                await ask()
            raise

    return probe


def _check(channel: grpc.aio.Channel) -> Probe:
    method = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )

    async def check() -> bool:
        call = method(health_pb2.HealthCheckRequest(), timeout=_DEADLINE)
        if (await call).status == health_pb2.HealthCheckResponse.SERVING:
            return True
        for key, value in await call.trailing_metadata() or ():
            if key == WHY:
                reason, _, sentence = str(value).partition(": ")
                raise Unavailable(sentence, reason=reason)
        return False

    return check


async def _answer(probe: Probe) -> tuple[bool, str]:
    """Return whether a probe passes, and why not if it says so."""
    try:
        async with asyncio.timeout(_DEADLINE):
            return await probe(), ""
    except (PlaneError, TimeoutError) as error:
        return False, why_not(error)
