"""Renewals where several stores serve one executor, or one is stopped. PostgreSQL only: SQLite has one store."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.support.databases import TASKS, copied
from tests.support.postgres import Cluster
from tests.tasks.plane import EXECUTOR, Plane, Run, eventually, opened, until

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.channel import client, connect
from taskplane.runtime.errors import PlaneError
from taskplane.storage.dialects import POSTGRESQL
from taskplane.tasks.domain.task import Lease
from taskplane.tasks.sql import leases
from taskplane.tasks.sql.clock import LeaseClock


@pytest.fixture
async def url(cluster: Cluster) -> AsyncGenerator[str, None]:
    async with copied(cluster, TASKS) as url:
        yield url


def lease(run: Run) -> pb.Lease:
    return pb.Lease(task_uid=run.uid, fence=run.fence)


async def renew(queue: pb_grpc.TaskQueueStub, *runs: Run, process_id: str = "p1") -> pb.RenewResponse:
    return await queue.Renew(pb.RenewRequest(process_id=process_id, leases=map(lease, runs)))


async def end_of(plane: Plane, run: Run) -> int:
    """The end of its lease."""
    held: list[Lease] = list(await plane.engine.read(leases.held, "p1"))
    (found,) = [each for each in held if each.task_uid == run.uid]
    return found.lease_until


async def renewed_end(plane: Plane, run: Run) -> int:
    """The end of its lease after one more renewal."""
    await renew(plane.queue(), run)
    return await end_of(plane, run)


@asynccontextmanager
async def store_process(
    url: str, socket: Path, failpoints: str, *, lease_ttl: float = 60
) -> AsyncGenerator[pb_grpc.TaskQueueStub, None]:
    """The queue of a task store that is a process of its own."""
    environment = {
        **os.environ,
        "TASKPLANE_TASKS_DATABASE_URL": url,
        "TASKPLANE_TASKS_LISTEN": f"unix:{socket}",
        "TASKPLANE_TASKS_LEASE_TTL": str(lease_ttl),
        "TASKPLANE_TASKS_RENEW_EVERY": str(lease_ttl / 3),
        "TASKPLANE_FAILPOINTS": failpoints,
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "taskplane.tasks", env=environment)
    try:
        async with connect(f"unix:{socket}") as channel:
            queue = pb_grpc.TaskQueueStub(client(channel, identity=EXECUTOR))

            async def answers() -> bool:
                with suppress(PlaneError):
                    await queue.Release(pb.ReleaseRequest(process_id="nobody"))
                    return True
                return False

            await eventually(answers, bool, 60.0)
            yield queue
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.parametrize("place", ["renew.before_write", "renew.before_commit"])
async def test_a_store_that_was_stopped_during_a_renewal_shortens_no_lease(
    url: str, tmp_path: Path, place: str
) -> None:
    """C8: a renewal by another store in that time stays valid, and no lease is reported as lost."""
    go = tmp_path / "go"
    async with (
        opened(url, lease_ttl=60.0) as here,
        store_process(url, tmp_path / "socket", f"{place}=pause({go})") as stopped,
    ):
        run = await here.create(working=True)
        ends = [await end_of(here, run)]
        held_up = asyncio.ensure_future(renew(stopped, run))
        await until(Path(f"{go}.reached").exists, 60.0)
        (meanwhile,) = (await renew(here.queue(), run)).leases
        assert meanwhile.still_yours and meanwhile.unknown == (place == "renew.before_commit")
        ends.append(await end_of(here, run))
        if place == "renew.before_write":
            # Far beyond what the clocks of two stores may differ by.
            ends.append(await eventually(lambda: renewed_end(here, run), lambda end: end > ends[0] + 3_000_000))
        go.touch()
        (late,) = (await held_up).leases
        assert late.still_yours and not late.unknown
        ends.append(await end_of(here, run))
        (again,) = (await renew(here.queue(), run)).leases
        assert again.still_yours and not again.unknown
        ends.append(await end_of(here, run))
    assert ends == sorted(ends) and ends[-1] > ends[0]
    if place == "renew.before_write":
        assert ends[2] == ends[3]


async def test_a_store_that_stays_stopped_keeps_no_lease_from_being_renewed(url: str, tmp_path: Path) -> None:
    """C8: the database ends its transaction well before the leases that it has locked run out."""
    never = tmp_path / "never"
    async with (
        opened(url, lease_ttl=60.0) as here,
        store_process(url, tmp_path / "socket", f"renew.before_commit=pause({never})", lease_ttl=3) as stopped,
    ):
        run = await here.create(working=True)
        held_up = asyncio.ensure_future(renew(stopped, run))
        await until(Path(f"{never}.reached").exists, 60.0)
        assert (await renew(here.queue(), run)).leases[0].unknown
        response = await eventually(lambda: renew(here.queue(), run), lambda found: not found.leases[0].unknown)
        assert response.leases[0].still_yours
        held_up.cancel()


async def test_whether_a_process_lives_does_not_depend_on_the_store_that_renews_its_leases(url: str) -> None:
    """C8: three renewals in a row come to another store than the one that assigns; a silent process is still dead."""
    async with opened(url) as assigning, opened(url) as renewing:
        request = pb.ClaimRequest(process_id="elsewhere", agents=["demo"], capacity=2)
        stream = aiter(assigning.queue().Claim(request))
        silent = aiter(assigning.queue().Claim(pb.ClaimRequest(process_id="silent", agents=["demo"], capacity=100)))
        await anext(stream)
        await anext(silent)
        clock = LeaseClock(POSTGRESQL)

        async def alive() -> set[str]:
            """Those whom a store takes to be alive."""
            return set(await assigning.engine.read(leases.loads, ["elsewhere", "silent"], clock))

        renewals = 0
        while renewals < 3 or "silent" in await alive():
            await renew(renewing.queue(), process_id="elsewhere")
            renewals += 1
            await asyncio.sleep(0.1)

        async def go_on() -> None:
            while True:
                await renew(renewing.queue(), process_id="elsewhere")
                await asyncio.sleep(0.1)

        living = asyncio.ensure_future(go_on())
        run = await assigning.create()
        async with asyncio.timeout(30.0):
            while not (response := await anext(stream)).HasField("assignment"):
                pass
        assert response.assignment.record.uid == run.uid
        living.cancel()
