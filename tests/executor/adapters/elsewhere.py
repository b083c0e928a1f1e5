"""An executor that serves cards, and a worker in a process of its own that is lost together with it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from tests.executor.adapters.scenarios import Gate, Open
from tests.executor.plane import Plane, Stores, open_plane
from tests.support.processes import Process

from taskplane.executor.agent import AgentCard, Policy
from taskplane.executor.elsewhere import Elsewhere
from taskplane.runtime.server import serving as serving_sockets

# Starts a worker of the agents with these names, by the address of both stores, with a log.
Start = Callable[[list[str], str, Gate, Path], Awaitable[Process]]
_BEGINS = 30.0


def working(start: Start) -> Open:
    """Serves the card of an agent in an executor of this process, and runs it in what `start` starts."""

    @asynccontextmanager
    async def opened(stores: Stores, gate: Gate, policies: Mapping[str, Policy]) -> AsyncGenerator[Plane]:
        agents = [(name, Elsewhere(AgentCard(name=name), policy.on_orphan)) for name, policy in policies.items()]
        async with (
            serving_sockets(stores.services, "127.0.0.1:0", grace=0.1, interceptors=[CutOff(stores)]) as server,
            open_plane(stores, *agents) as plane,
        ):
            log = gate.path.with_name(f"worker-{server.port}.log")
            process = await start(list(policies), server.address, gate, log)
            try:
                async with asyncio.timeout(_BEGINS):
                    while "worker ready" not in (log.read_text() if log.exists() else ""):
                        assert process.returncode is None, log.read_text()
                        await asyncio.sleep(0.02)
                losing = asyncio.create_task(_lost_with(stores, process))
                yield plane
                losing.cancel()
            finally:
                _kill(process)
                await process.wait()

    return opened


class CutOff(grpc.aio.ServerInterceptor):
    """Refuses over sockets what the stores refuse in this process."""

    def __init__(self, stores: Stores) -> None:
        self._before = stores.channel.before

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        refusal = self._before.get(handler_call_details.method.rpartition("/")[2])
        if refusal is None:
            return await continuation(handler_call_details)

        async def refused(request: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this worker is cut off")

        handler: Any = grpc.unary_unary_rpc_method_handler(refused)  # pyright: ignore[reportUnknownVariableType]
        return handler


async def _lost_with(stores: Stores, process: Process) -> None:
    """Kills a worker once the executor that serves its card is cut off from the stores."""
    while "Renew" not in stores.channel.before:
        await asyncio.sleep(0.01)
    _kill(process)


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(9)
