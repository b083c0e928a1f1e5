"""Renewals and appends at two stores, one of which does not answer them. PostgreSQL only: SQLite has one store."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.executor.plane import Plane, open_stores, text, until
from tests.executor.scripted import Scripted
from tests.support.databases import copied
from tests.support.postgres import Cluster

from taskplane.agents.agent import ArtifactChunk, Change, Complete, Turn
from taskplane.agents.loading import Agents
from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.executor import servicer
from taskplane.executor.composition import open_executor
from taskplane.executor.runs.answer_timeout import AnswerTimeout
from taskplane.executor.settings import ExecutorSettings
from taskplane.runtime.channel import connect
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services

WRITES = ("Renew", "AppendEvents")


class Arrivals(grpc.aio.ServerInterceptor):
    """Notes the calls of each replica, in order; a replica that `hangs` never answers renewals and appends."""

    def __init__(self, name: str, seen: list[tuple[str, str]], *, hangs: bool = False) -> None:
        self._name = name
        self._seen = seen
        self._hangs = hangs

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        self._seen.append((method, self._name))
        if self._hangs and method in WRITES:
            await asyncio.Event().wait()
        return await continuation(handler_call_details)


def test_a_try_waits_longer_after_each_unanswered_try() -> None:
    tries = AnswerTimeout(6.0)
    timeouts = [tries.timeout]
    for _ in range(4):
        tries.unanswered()
        timeouts.append(tries.timeout)
    assert timeouts == [2.0, 4.0, 8.0, 10.0, 10.0]
    tries.answered()
    assert tries.timeout == 2.0
    assert AnswerTimeout(0.1).timeout == 0.5


@pytest.mark.more
async def test_a_run_continues_if_one_of_two_stores_answers_no_renewal_and_no_append(
    tmp_path: Path, cluster: Cluster
) -> None:
    """C8: although that store is healthy and connected; an unanswered try is repeated at the other store."""
    open_ = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        index = 0
        while not open_.is_set():
            yield ArtifactChunk("a", text=".", append=index > 0, mergeable=False)
            index += 1
            await asyncio.sleep(0.1)
        yield Complete(f"attempt {turn.attempt}")

    seen: list[tuple[str, str]] = []
    values: dict[str, float] = {"lease_ttl": 3.0, "renew_every": 1.0}
    services = Services(policy=servicer.POLICY)
    settings = ExecutorSettings(renew_every=1.0, drain_timeout=0.5, cancel_grace=1.0, strict_agents=True)
    files = (tasks_pb2.DESCRIPTOR, sessions_pb2.DESCRIPTOR)
    forever: dict[str, Any] = {"grace": 0.1, "connection_age": 600.0}
    async with (
        copied(cluster) as url,
        open_stores(tmp_path, database_url=url, **values) as here,
        open_stores(tmp_path, database_url=url, **values) as there,
        serving(here.services, "127.0.0.1:0", interceptors=[Arrivals("here", seen)], **forever) as one,
        serving(there.services, "127.0.0.1:0", interceptors=[Arrivals("there", seen, hangs=True)], **forever) as two,
        connect(f"{one.address},{two.address}", *files) as stores,
        connect(f"{one.address},{two.address}", *files) as renewals,
        connect(f"{one.address},{two.address}", *files) as appends,
        open_executor(
            settings,
            services,
            stores,
            stores,
            secrets.token_hex(8),
            agents=Agents({"a": Scripted(script)}),
            renewals=renewals,
            appends=appends,
        ) as service,
    ):
        await until(lambda: len({name for _, name in seen}) == 2)
        plane = Plane(here, service, services)
        reference = await plane.submit("go")
        # Longer than two leases.
        await until(lambda: seen.count(("Renew", "there")) >= 3)
        open_.set()
        task = await plane.at_rest(reference)
        assert text(task.status.message) == "attempt 1"
    for method in WRITES:
        replicas = [name for called, name in seen if called == method]
        # Round robin begins at any address once more when a connection changes.
        assert sum(pair == ("there", "there") for pair in pairwise(replicas)) <= 2, replicas
        assert Counter(replicas)["there"] >= 3, replicas
