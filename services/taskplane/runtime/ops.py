"""The small HTTP port of a process for its operators: `/metrics`, `/healthz` and `/readyz`."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from taskplane.runtime.errors import Invalid
from taskplane.runtime.health import Health
from taskplane.runtime.http_server import HttpProtocol, listening, serving_http
from taskplane.runtime.metrics import exposition

_GRACE: Final = 1


@contextlib.asynccontextmanager
async def serving_ops(listen: str, health: Health, *, setting: str) -> AsyncGenerator[str]:
    """Serve on `listen` ("host:port", port 0 for any) while the body runs; yield the URL, or "" if `listen` is empty.

    `/metrics` is the Prometheus text format, `/healthz` answers 200 while the process runs, `/readyz` 200 while
    `health` says SERVING and 503 with the reason otherwise. Nobody is authenticated: the answers name no task, session
    or owner. Raise Invalid `BAD_LISTEN` if the address is malformed, Unavailable `CANNOT_LISTEN` if it is in use;
    both name `setting`.
    """
    if not listen:
        yield ""
        return
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise Invalid(
            f"{listen!r} is not a listen address; write host:port",
            reason="BAD_LISTEN",
            fields={setting: "host:port"},
        )
    host = host.removeprefix("[").removesuffix("]")

    async def readyz(request: Request) -> Response:
        if health.serving:
            return JSONResponse({"ready": True})
        why = {"why": health.why} if health.why else {}
        return JSONResponse({"ready": False, **why}, status_code=503)

    routes = [Route("/metrics", _metrics), Route("/healthz", _healthz), Route("/readyz", readyz)]
    with listening(host or "0.0.0.0", int(port), setting=setting) as listener:
        config = uvicorn.Config(
            Starlette(routes=routes),
            http=HttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE,
        )
        async with serving_http(config, listener):
            name = f"[{host}]" if ":" in host else host
            yield f"http://{name}:{listener.getsockname()[1]}"


async def _metrics(request: Request) -> Response:
    body, media_type = exposition()
    return Response(body, media_type=media_type)


async def _healthz(request: Request) -> Response:
    return JSONResponse({"status": "ok"})
