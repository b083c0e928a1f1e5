"""A check that a block leaves nothing behind in a plane on SQLite."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.system.plane import Plane
from tests.system.wire import client, until


def stored(plane: Plane) -> dict[str, list[Any]]:
    """Everything that both stores hold, but for the clocks of leases."""
    found: dict[str, list[Any]] = {}
    for path, tables in ((plane.tasks_db, ("task", "event")), (plane.sessions_db, ("session", "entry"))):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            for table in tables:
                found[table] = database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
        finally:
            database.close()
    return found


@asynccontextmanager
async def untouched(plane: Plane) -> AsyncGenerator[None]:
    """The block stores nothing, logs no failure of ours, and leaves no stream open."""
    before, log = stored(plane), len(failures(plane))
    yield
    async with client(plane.url) as http:
        await until(lambda: no_streams(http))
    assert stored(plane) == before
    assert failures(plane)[log:] == []


def failures(plane: Plane) -> list[str]:
    """Returns the errors in the log of the process."""
    lines = (plane.data / "dev.log").read_text(errors="replace").splitlines()
    return [line for line in lines if '"level":"ERROR"' in line or line.startswith("Traceback")]


async def no_streams(http: httpx.AsyncClient) -> bool:
    return "taskplane_http_open_streams 0.0" in (await http.get("/metrics")).text
