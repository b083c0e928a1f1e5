"""The service grpc.health.v1: SERVING once the readiness probe passes, NOT_SERVING after it fails for `PATIENCE`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from taskplane.runtime.errors import PlaneError

Probe = Callable[[], Awaitable[bool]]

PERIOD: Final = 1.0
"""Seconds between two probes of a ready service. A probe that takes longer than this fails."""
PATIENCE: Final = 5.0
"""Seconds of failing probes after which a ready service reports NOT_SERVING: a short failure must not remove it from
the load balancers."""

WHY: Final = "taskplane-why"
"""The key of the trailing metadata with the reason, for a Check that is answered NOT_SERVING."""

# Seconds between two probes of a service that is not ready: short, so that clients can use it as soon as it is ready.
_SOON: Final = 0.1
_log = logging.getLogger(__name__)
_SERVING: Final = int(health_pb2.HealthCheckResponse.SERVING)
_NOT_SERVING: Final = int(health_pb2.HealthCheckResponse.NOT_SERVING)


def why_not(error: BaseException) -> str:
    """Return the reason and text of a PlaneError, since these never name hosts or files. Return "" if the error has no
    reason, or is no PlaneError."""
    return f"{error.reason}: {error.message}" if isinstance(error, PlaneError) and error.reason else ""


class Health:
    """The health of some services and of the process (the empty name). All have the same status."""

    def __init__(
        self, names: Iterable[str], probe: Probe | None, *, period: float = PERIOD, patience: float = PATIENCE
    ) -> None:
        """`probe` None: the services are ready while the process runs. `period` and `patience` are in seconds."""
        self._names = ["", *names]
        self._probe = probe
        self._period = period
        self._patience = patience
        self._servicer = _Servicer(self)
        self._serving = False
        self._shut = False
        self._failing: str | None = None
        self.why = ""
        """The reason why the last probe failed; "" if it passed, or if clients must not see the reason."""

    @property
    def serving(self) -> bool:
        """Return whether the reported status is SERVING."""
        return self._serving

    async def register(self, server: grpc.aio.Server) -> None:
        """Add the health service to a server before it starts. NOT_SERVING until the first probe passes."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        await self._report(False)

    async def run(self) -> None:
        """Probe until `shut` is called. Probe more often while the services are not ready."""
        if self._probe is None:
            await self._report(True)
            return
        loop = asyncio.get_running_loop()
        passed = loop.time() - self._patience
        while not self._shut:
            if await self._passes(self._probe):
                passed = loop.time()
                if not self._serving:
                    await self._report(True)
            elif self._serving and loop.time() - passed >= self._patience:
                await self._report(False)
            await asyncio.sleep(self._period if self._serving else min(_SOON, self._period))

    async def shut(self) -> None:
        """Report NOT_SERVING from now on: the process drains. Clients then send their calls elsewhere."""
        self._serving, self._shut = False, True
        await self._servicer.enter_graceful_shutdown()

    async def _passes(self, probe: Probe) -> bool:
        why: str | None = "it is not ready yet"
        public_reason = ""
        try:
            async with asyncio.timeout(self._period):
                if await probe():
                    why = None
        except Exception as error:  # noqa: BLE001 - any error means that the service is not ready
            why = f"{type(error).__name__}: {error}"
            public_reason = why_not(error)
        if (why is None) != (self._failing is None):
            _log.log(logging.WARNING if why else logging.INFO, "readiness probe: %s", why or "passes")
        self._failing, self.why = why, public_reason
        return why is None

    async def _report(self, serving: bool) -> None:
        self._serving = serving and not self._shut
        for name in self._names:
            await self._servicer.set(name, _SERVING if serving else _NOT_SERVING)


class _Servicer(health.aio.HealthServicer):
    """The health service, with the reason in the trailing metadata of Check."""

    def __init__(self, of: Health) -> None:
        super().__init__()
        self._of = of

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:
        if not self._of.serving and self._of.why:
            context.set_trailing_metadata(((WHY, self._of.why),))
        return await super().Check(request, context)
