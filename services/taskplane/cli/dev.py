"""`taskplane dev`: the whole plane in one process, on SQLite files or on one PostgreSQL database."""

import asyncio
import logging
import platform
import shlex
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from taskplane.api import __version__
from taskplane.cli import STARTED
from taskplane.cli.browser import open_page, page_address
from taskplane.cli.ports import ListenAddress, check_free
from taskplane.cli.report import note, report_error, single_refusal
from taskplane.cli.stdout import unwritable
from taskplane.client.failures import Failure
from taskplane.runtime.errors import Invalid, PlaneError

if TYPE_CHECKING:
    from taskplane.agents.loading import Agents
    from taskplane.agents.reloading import Reloader
    from taskplane.cli.composition import Plane, PlaneSettings

log = logging.getLogger(__name__)

GRPC_HOST: Final = "127.0.0.1"
DEMO: Final = "demo"
LOOK_EVERY: Final = 0.25
"""Seconds between two looks at the files of the agents with --reload."""


@dataclass(frozen=True, slots=True)
class DevOptions:
    """The options of the command line. `data` and `database_url` exclude one another; without either it is
    `./.taskplane`."""

    agents: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int = 50050
    data: Path | None = None
    database_url: str = ""
    client_task_ids: str | None = None
    reload: bool = False
    browser: bool = True


def dev(options: DevOptions) -> int:
    """Run until Ctrl-C or SIGTERM, then drain; a second Ctrl-C exits at once. Return the exit code."""
    try:
        addresses = (
            ListenAddress(options.host, options.port, "--port"),
            ListenAddress(GRPC_HOST, options.grpc_port, "--grpc-port"),
        )
        check_free(addresses, partial(_command, options))
        return _run(options)
    except (Failure, PlaneError) as error:
        return report_error(error)
    except BaseExceptionGroup as group:
        return report_error(single_refusal(group))


def _run(options: DevOptions) -> int:
    # Imported here, since the imports take a second and a port in use is reported before.
    from taskplane.cli.composition import open_plane
    from taskplane.runtime import logs, process

    settings = plane_settings(options)
    logs.setup(settings.tasks.log_level)
    reloader = _reloader(settings) if options.reload else None

    async def main(stop: asyncio.Event) -> None:
        async with open_plane(settings) as plane, reloading(reloader, plane):
            _print_start(settings, plane)
            if options.browser and sys.stdout.isatty():
                await asyncio.to_thread(open_page, page_address(plane.gateway.url))
            await stop.wait()
            if plane.running:
                note(f"  waiting for {plane.running} running task(s), Ctrl-C again to stop at once")

    drain = settings.executor.drain_timeout + settings.executor.cancel_grace + settings.tasks.drain_timeout + 5.0
    return process.run(main, drain=drain)


def _command(options: DevOptions, ports: Mapping[str, int]) -> str:
    """Return the command with these options and other ports. The URL of a database is left out: it may contain a
    password."""
    given = [
        *(("--agent", agent) for agent in options.agents),
        ("--host", options.host),
        ("--port", str(ports.get("--port", options.port))),
        ("--grpc-port", str(ports.get("--grpc-port", options.grpc_port))),
        ("--data", str(options.data or "")),
        ("--database-url", "URL" if options.database_url else ""),
        ("--client-task-ids", options.client_task_ids or ""),
    ]
    default = DevOptions()
    usual = {("--host", default.host), ("--port", str(default.port)), ("--grpc-port", str(default.grpc_port))}
    words = [word for flag, value in given if value and (flag, value) not in usual for word in (flag, value)]
    switches = ["--reload"] * options.reload + ["--no-browser"] * (not options.browser)
    return shlex.join(["taskplane", "dev", *words, *switches])


def _reloader(settings: "PlaneSettings") -> "Reloader":
    from taskplane.agents.reloading import Reloader

    executor = settings.executor
    return Reloader(executor.agents, Path.cwd(), every=LOOK_EVERY, allow_crash=executor.allow_crash)


@asynccontextmanager
async def reloading(reloader: "Reloader | None", plane: "Plane") -> AsyncGenerator[None]:
    """Serve new code of the agents when their files have changed, and report it; None: never."""
    if reloader is None:
        yield
        return

    def loaded(newer: "Agents") -> None:
        plane.replace(newer)
        note(f"✓ {', '.join(newer.names)} reloaded; running tasks continue with their old code")

    def failed(error: PlaneError) -> None:
        report_error(error)
        note("  The previous version of the agent stays in use.")

    def ended(watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()) is not None:
            log.error("the files of the agents are no longer watched; start again", exc_info=error)

    watching = asyncio.create_task(reloader.watch(loaded, failed), name="reload")
    watching.add_done_callback(ended)
    try:
        yield
    finally:
        watching.cancel()


def plane_settings(options: DevOptions) -> "PlaneSettings":
    """Return the settings of all services: from options, then the environment, then the defaults. Raise Invalid."""
    from taskplane.cli.composition import PlaneSettings
    from taskplane.cli.settings import ALSO, KNOWN
    from taskplane.executor.settings import PREFIX as EXECUTOR
    from taskplane.executor.settings import ExecutorSettings
    from taskplane.gateway.settings import PREFIX as GATEWAY
    from taskplane.gateway.settings import GatewaySettings
    from taskplane.runtime.settings import check_unknown, load
    from taskplane.sessions.settings import PREFIX as SESSIONS
    from taskplane.sessions.settings import SessionsSettings
    from taskplane.tasks.settings import PREFIX as TASKS
    from taskplane.tasks.settings import TasksSettings

    check_unknown(None, KNOWN, ALSO)
    executor = load(ExecutorSettings, EXECUTOR, agents=options.agents or None)
    gateway = load(
        GatewaySettings, GATEWAY, host=options.host, port=options.port, client_task_ids=options.client_task_ids
    )
    tasks = load(TasksSettings, TASKS, database_url=_database(options, "tasks.db"))
    sessions = load(SessionsSettings, SESSIONS, database_url=_database(options, "sessions.db"))
    services = (tasks, sessions, executor, gateway)
    secret = next((service.internal_secret for service in services if service.internal_secret), "")
    return PlaneSettings(
        tasks=replace(tasks, internal_secret=secret),
        sessions=replace(sessions, internal_secret=secret),
        executor=replace(executor, internal_secret=secret, agents=_with_demo(executor.agents)),
        # With --reload a new card is served at once.
        gateway=replace(gateway, internal_secret=secret, card_age=0.0 if options.reload else gateway.card_age),
        grpc_listen=f"{GRPC_HOST}:{options.grpc_port}",
    )


def _with_demo(specs: tuple[str, ...]) -> tuple[str, ...]:
    named = {spec.rpartition("=")[0] or spec.rpartition(":")[2] for spec in specs}
    return specs if DEMO in named else (*specs, DEMO)


def _database(options: DevOptions, file: str) -> str | None:
    """Return the URL for one store; None: the URL in its settings."""
    if options.data is not None and options.database_url:
        raise Invalid(
            "--data and --database-url exclude each other.",
            reason="USAGE",
            suggestion="Give either a folder for SQLite files or the URL of a PostgreSQL database.",
        )
    if options.database_url:
        return options.database_url
    return f"sqlite:///{options.data.absolute() / file}" if options.data is not None else None


def _print_start(settings: "PlaneSettings", plane: "Plane") -> None:
    from taskplane.storage.urls import shown

    url, agent = plane.gateway.url, plane.agents[0]
    python = ".".join(platform.python_version_tuple()[:2])
    databases = dict.fromkeys(shown(service.database_url) for service in (settings.tasks, settings.sessions))
    demo = " (scripted, needs no API key)" if agent == DEMO else ""
    to = "" if url == "http://127.0.0.1:8080" else f" --url {url}"
    missing = f"  (not built: {plane.gateway.why_no_page})" if plane.gateway.why_no_page else ""
    tip = "  or, in the page: count 30, then reload it" if agent == DEMO else ""
    start = (
        f"taskplane {__version__} (Python {python})  agent: {agent}{demo}\n\n"
        f"Web page    {page_address(url)}{missing}\n"
        f"A2A         {url}/  card: {url}/.well-known/agent-card.json\n"
        f"gRPC        {plane.grpc.address}  A2A, tasks, sessions, executor\n"
        f"Data        {'  '.join(databases)}\n"
        f'Try         taskplane chat{to} -m "hello"{tip}\n'
        f"ready in {time.perf_counter() - STARTED:.1f} s - press Ctrl-C to stop"
    )
    try:
        print(start, flush=True)
    except OSError as error:
        raise unwritable(error) from error
