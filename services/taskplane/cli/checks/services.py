"""Checks of the gRPC services of a plane, and of the ports that a plane would use."""

import time
from collections.abc import AsyncGenerator, Iterator
from typing import Final
from urllib.parse import urlsplit

import grpc
from grpc_health.v1 import health_pb2

from taskplane.api.executor.v1 import executor_pb2
from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.cli.checks.finding import Finding
from taskplane.cli.ports import holder_of
from taskplane.runtime.channel import connect
from taskplane.runtime.errors import Invalid

_PATIENCE: Final = 2.0
_SERVICES: Final = (
    *(
        file.services_by_name[name].full_name
        for file, name in (
            (tasks_pb2.DESCRIPTOR, "TaskStore"),
            (sessions_pb2.DESCRIPTOR, "SessionHistory"),
            (executor_pb2.DESCRIPTOR, "AgentExecutor"),
        )
    ),
    # A2A 1.0, section 10. That of A2A 0.3 is beside it, with the same health.
    "lf.a2a.v1.A2AService",
)


async def services(address: str) -> AsyncGenerator[Finding]:
    """Ask each gRPC service at an address for its health.

    An address that cannot be reached is a warning: operators may keep these services to themselves.
    """
    try:
        async with connect(address) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            for name in _SERVICES:
                began = time.perf_counter()
                try:
                    answer = await check(health_pb2.HealthCheckRequest(service=name), timeout=_PATIENCE)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.NOT_FOUND:
                        yield _not_reached(address)
                        return
                    # Another process serves it.
                    continue
                yield _health(name, answer.status, time.perf_counter() - began)
    except Invalid as error:
        yield Finding("failed", "grpc", error.message, error.suggestion)


def _health(name: str, status: int, seconds: float) -> Finding:
    short = name.rpartition(".")[2]
    if status == health_pb2.HealthCheckResponse.SERVING:
        return Finding("ok", "grpc", f"{short} is serving ({seconds * 1000:.1f} ms)")
    return Finding("failed", "grpc", f"{short} is not serving", "Check its log; often its database is unreachable.")


def _not_reached(address: str) -> Finding:
    return Finding(
        "warning",
        "grpc",
        f"no server answers at {address}",
        "Give the gRPC address of the plane:  --grpc HOST:PORT",
    )


def ports(url: str, address: str) -> Iterator[Finding]:
    """Say of the ports of a plane that does not answer whether they are free, and which process has them if not."""
    for option, port in (("--port", urlsplit(url).port), ("--grpc-port", urlsplit(f"//{address}").port)):
        if port is None:
            continue
        holder = holder_of(port)
        if holder is None:
            yield Finding("ok", "port", f"{port} is free here")
        else:
            yield Finding(
                "warning",
                "port",
                f'{port} is in use by "{holder.command}" (pid {holder.pid})',
                f"Use another:  taskplane dev {option} {port + 1}        Or stop it:  kill {holder.pid}",
            )
