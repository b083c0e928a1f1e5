"""Planes with two replicas of a service, by any kind of address that operators give them. PostgreSQL only."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support.balancer import balancer
from tests.support.dns import NameServer, name_server
from tests.support.ports import free_port
from tests.system.plane import Plane, four_processes

Form = Literal["list", "name", "balancer"]
FIRST, SECOND = "127.0.0.1", "127.0.0.2"
ROOMS = ("tasks", "sessions", "executor")


@dataclass
class Replicas:
    """A plane of one replica each, and the addresses of the second ones: `tasks2`, `sessions2`, `executor2`."""

    plane: Plane
    second: dict[str, str]
    names: NameServer | None = None

    async def add(self, *rooms: str) -> None:
        """Starts second replicas, and returns when they are ready. The name resolves to them from then on, too."""
        for room in rooms:
            name = f"{room}2"
            self.plane.commands[name] = ["serve", room]
            await self.plane.start(name, wait=False, **{f"TASKPLANE_{room.upper()}_LISTEN": self.second[room]})
        for room in rooms:
            await self.plane.logged(f"{room}2", " ready: gRPC ", 30.0)
        if self.names is not None:
            self.names.addresses = [FIRST, SECOND]


@asynccontextmanager
async def replicas(
    form: Form, data: Path, database_url: str, extra: Mapping[str, str], *rooms: str
) -> AsyncGenerator[Replicas]:
    """A plane, ready, with addresses of `rooms` in the form of two replicas; the second ones do not run."""
    databases = {f"TASKPLANE_{store}_DATABASE_URL": database_url for store in ("TASKS", "SESSIONS")}
    plane = four_processes(data, {**extra, **databases})
    async with AsyncExitStack() as stack:
        made = Replicas(plane, {})
        if form == "name":
            made.names = await stack.enter_async_context(name_server(FIRST))
        for room in rooms:
            port = int(plane.environment[f"TASKPLANE_{room.upper()}_LISTEN"].rpartition(":")[2])
            if made.names is not None:
                made.second[room] = f"{SECOND}:{port}"
                address = made.names.target(f"{room}.test", port)
            elif form == "list":
                made.second[room] = f"{SECOND}:{port}"
                address = f"{FIRST}:{port},{SECOND}:{port}"
            else:
                other = free_port()
                made.second[room] = f"{FIRST}:{other}"
                between = await stack.enter_async_context(balancer(port, other))
                address = f"{FIRST}:{between.port}"
            users = ("GATEWAY",) if room == "executor" else ("GATEWAY", "EXECUTOR")
            plane.environment |= {f"TASKPLANE_{user}_{room.upper()}": address for user in users}
        stack.push_async_callback(plane.stop)
        await plane.start()
        yield made
