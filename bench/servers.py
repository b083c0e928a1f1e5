"""The servers under test, each in processes of its own."""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import orjson

from bench import load
from bench.bindings import jsonrpc
from bench.lean_http import connect


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def _process(
    *command: str, log: Path | None = None, environment: Mapping[str, str] | None = None, python: str = sys.executable
) -> AsyncGenerator[None]:
    """A Python program; what it logs goes to `log`, else to this terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")}
    # One client of a bench is many. Another version may not know the setting.
    unlimited = {"TASKPLANE_EXECUTOR_SENDS_PER_SECOND": "0"} if python == sys.executable else {}
    errors = log.open("wb") if log is not None else None
    process = await asyncio.create_subprocess_exec(
        python,
        *command,
        env=kept | unlimited | dict(environment or {}),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=errors,
    )
    try:
        yield
    finally:
        if errors is not None:
            errors.close()
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()


def reading(port: int, path: str, readers: int) -> AbstractAsyncContextManager[None]:
    """So many readers of a path, over and over, in a process of their own."""
    return _process("-m", "bench.readers", str(port), path, str(readers))


async def answering(port: int, path: str) -> None:
    """Returns once a server answers with JSON."""
    async with asyncio.timeout(120):
        while True:
            try:
                async with connect(port) as connection:
                    await connection.get_json(path)
                    return
            except (OSError, ValueError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.05)


@asynccontextmanager
async def program(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> AsyncGenerator[int]:
    """A module of the bench that serves on the port that is its first argument; its port."""
    port = free_port()
    async with _process("-m", module, str(port), *arguments, environment=environment):
        yield port


@asynccontextmanager
async def peer(kind: str, grpc_port: int = 0) -> AsyncGenerator[int]:
    """The SDK's server with its `memory` or `sqlite` store; its HTTP port. `grpc_port`: 0 for no gRPC."""
    port = free_port()
    folder = Path(tempfile.mkdtemp())
    try:
        async with _process("-m", "bench.peer", str(port), kind, str(folder / "peer.db"), str(grpc_port)):
            await answering(port, "/.well-known/agent-card.json")
            yield port
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def durability() -> list[str]:
    """What `taskplane dev` reads back of the settings of its two SQLite files, in its own words."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        told = {"TASKPLANE_TASKS_LOG_LEVEL": "DEBUG"}
        async with started("--data", folder, log=log, environment=told):
            pass
        texts = [str(orjson.loads(line)["message"]) for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    return sorted({text.rpartition("/")[2] for text in texts if " synchronous = " in text})


@asynccontextmanager
async def one_process(
    counting: int = 0, log: Path | None = None, python: str = sys.executable, grpc_port: int = 0
) -> AsyncGenerator[int]:
    """`taskplane dev` on SQLite files; its HTTP port. `counting`: a port that tells the bytes it bound."""
    folder = Path(tempfile.mkdtemp())
    program = ("-m", "bench.counted", str(counting)) if counting else ("-m", "taskplane.cli")
    try:
        async with started("--data", str(folder), program=program, log=log, python=python, grpc_port=grpc_port) as port:
            yield port
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def started(
    *where: str,
    program: Sequence[str] = ("-m", "taskplane.cli"),
    log: Path | None = None,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    grpc_port: int = 0,
) -> AsyncGenerator[int]:
    """`taskplane dev` on what these options say; its HTTP port. `grpc_port`: 0 for any free one."""
    port = free_port()
    command = ("dev", "--port", str(port), "--grpc-port", str(grpc_port or free_port()), *where)
    async with _process(*program, *command, log=log, python=python, environment=environment):
        await answering(port, "/.well-known/agent-card.json")
        yield port


@asynccontextmanager
async def four_processes(python: str = sys.executable, grpc_port: int = 0) -> AsyncGenerator[int]:
    """The four services on their own, on SQLite files; the gateway's HTTP port. `grpc_port`: 0 for any free one."""
    tasks, sessions, executor, gateway = (free_port() for _ in range(4))
    folder = Path(tempfile.mkdtemp())
    environment = {
        "TASKPLANE_TASKS_LISTEN": f"127.0.0.1:{tasks}",
        "TASKPLANE_TASKS_DATABASE_URL": f"sqlite:///{folder}/tasks.db",
        "TASKPLANE_SESSIONS_LISTEN": f"127.0.0.1:{sessions}",
        "TASKPLANE_SESSIONS_DATABASE_URL": f"sqlite:///{folder}/sessions.db",
        "TASKPLANE_EXECUTOR_LISTEN": f"127.0.0.1:{executor}",
        "TASKPLANE_EXECUTOR_TASKS": f"127.0.0.1:{tasks}",
        "TASKPLANE_EXECUTOR_SESSIONS": f"127.0.0.1:{sessions}",
        "TASKPLANE_GATEWAY_PORT": str(gateway),
        "TASKPLANE_GATEWAY_TASKS": f"127.0.0.1:{tasks}",
        "TASKPLANE_GATEWAY_SESSIONS": f"127.0.0.1:{sessions}",
        "TASKPLANE_GATEWAY_EXECUTOR": f"127.0.0.1:{executor}",
    }
    if python == sys.executable:
        environment |= {f"TASKPLANE_{service}_OPS_LISTEN": "" for service in ("TASKS", "SESSIONS", "EXECUTOR")}
        environment["TASKPLANE_GATEWAY_GRPC_PORT"] = str(grpc_port)
    try:
        async with AsyncExitStack() as stack:
            for name in ("tasks", "sessions", "executor", "gateway"):
                await stack.enter_async_context(serving(name, environment, python))
            await ready(gateway)
            yield gateway
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def serving(
    service: str, environment: Mapping[str, str], python: str = sys.executable
) -> AbstractAsyncContextManager[None]:
    """One process of one service."""
    return _process("-m", "taskplane.cli", "serve", service, environment=environment, python=python)


async def ready(gateway: int) -> None:
    """Returns once sends are answered."""
    await answering(gateway, "/.well-known/agent-card.json")
    await _warm(gateway)


async def _warm(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await load.blocking_sends(jsonrpc(port), 1, 0.2)
                return
            except ExceptionGroup:
                await asyncio.sleep(0.2)
