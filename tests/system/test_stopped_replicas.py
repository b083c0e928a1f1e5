"""One of two replicas is stopped silently (SIGSTOP): the cost for its callers, and for the runs of others."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import httpx
import pytest
from tests.support.databases import take
from tests.support.postgres import Cluster
from tests.support.thorough import THOROUGH
from tests.system.replicas import Form, Replicas, replicas
from tests.system.wire import Json, call, client, raw_log, result, send, text_message

pytestmark = pytest.mark.more

thorough = pytest.mark.skipif(not THOROUGH, reason="takes more than ten seconds")

RUNS = 10
SENDERS = 4
# Seconds until all clients have left a silent replica: a second of silence, three for a ping.
LEFT = 4.0


def leases(seconds: float) -> dict[str, str]:
    """Settings for leases of so many seconds, renewed as often as by default."""
    every = str(seconds / 3)
    return {
        "TASKPLANE_TASKS_LEASE_TTL": str(seconds),
        "TASKPLANE_TASKS_RENEW_EVERY": every,
        "TASKPLANE_EXECUTOR_RENEW_EVERY": every,
        **{f"TASKPLANE_{room}_LOG_LEVEL": "DEBUG" for room in ("TASKS", "SESSIONS", "EXECUTOR")},
    }


async def begin(http: httpx.AsyncClient, chunks: int) -> list[str]:
    """Begins runs that stream one chunk every 0.25 s; returns their tasks after each has had an event."""
    begun = await asyncio.gather(
        *(send(http, f"slow {chunks}", configuration={"returnImmediately": True}) for _ in range(RUNS))
    )
    tasks = [answer["task"]["id"] for answer in begun]
    async with asyncio.timeout(20):
        for task in tasks:
            while "artifacts" not in await result(http, "GetTask", {"id": task}):
                await asyncio.sleep(0.02)
    return tasks


@asynccontextmanager
async def stopped(made: Replicas, name: str) -> AsyncGenerator[None]:
    """The process is stopped during the block, and then continues."""
    made.plane.send_signal(name, signal.SIGSTOP)
    try:
        yield
    finally:
        made.plane.send_signal(name, signal.SIGCONT)


@dataclass
class End:
    """The state in which a task has ended, the attempts it took, and the executors that wrote to it."""

    state: str
    attempts: set[int]
    executors: set[str]


class Sends:
    """Blocking sends without a key, one after the other from each sender."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.longest = 0.0
        self.done = 0
        self.errors: list[tuple[float, Json]] = []

    async def run(self, seconds: float) -> None:
        """Sends for a number of seconds. `errors`: the time since the beginning, and the error."""
        begun = monotonic()

        async def sender() -> None:
            while (at := monotonic()) < begun + seconds:
                answer = await call(self._http, "SendMessage", {"message": text_message("hello")})
                self.longest = max(self.longest, monotonic() - at)
                if "error" in answer:
                    self.errors.append((at - begun, answer["error"]))
                else:
                    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
                    self.done += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(sender())


async def ends(http: httpx.AsyncClient, tasks: list[str]) -> dict[str, End]:
    """How each of these tasks ends."""
    logs = await asyncio.gather(*(raw_log(http, task) for task in tasks))
    found = [await result(http, "GetTask", {"id": task}) for task in tasks]
    return {
        task: End(
            end["status"]["state"],
            {event["attempt"] for event in log},
            {event["actor"] for event in log if event["actor"].startswith("executor:")},
        )
        for task, log, end in zip(tasks, logs, found, strict=True)
    }


def unharmed(end: End) -> bool:
    """Whether a run went on to its end as if nothing had been."""
    return end.state == "TASK_STATE_COMPLETED" and end.attempts == {1} and len(end.executors) == 1


def calls_at(made: Replicas, name: str, method: str) -> int:
    """How many calls of a method a replica has answered; without a method, of any."""
    return (made.plane.data / f"{name}.log").read_text(errors="replace").count(f'{method}","code":"OK"')


def printed(sends: Sends) -> None:
    """Prints the figures of the sends."""
    print("sends", sends.done, "longest", round(sends.longest, 2), "errors", sends.errors)


async def until_used(made: Replicas, http: httpx.AsyncClient, name: str, method: str) -> None:
    """Sends until a replica has had a call of a method."""
    async with asyncio.timeout(20):
        while not calls_at(made, name, method):
            # Several at once: in sequence, each replica would always get the same calls.
            await asyncio.gather(*(send(http, "hello") for _ in range(5)))


@pytest.mark.parametrize(
    ("form", "ttl", "silence"),
    [
        ("list", 3.0, 4.5),
        pytest.param("list", 5.0, 22.0, marks=thorough),
        pytest.param("name", 5.0, 12.0, marks=thorough),
        pytest.param("balancer", 15.0, 22.0, marks=thorough),
    ],
)
async def test_a_stopped_store_costs_no_run(
    cluster: Cluster, tmp_path: Path, form: Form, ttl: float, silence: float
) -> None:
    """C8: for longer than a lease; no run is lost or begun again, and sends succeed."""
    # A balancer may give any connection to any client.
    method = "" if form == "balancer" else "CreateTask"
    async with replicas(form, tmp_path, cluster.url(await take(cluster)), leases(ttl), "tasks") as made:
        await costs_no_run(made, "tasks", method, int(4 * (silence + 1)), silence)


@thorough
async def test_a_stopped_session_history_delays_sends_by_seconds_only(cluster: Cluster, tmp_path: Path) -> None:
    async with replicas("list", tmp_path, cluster.url(await take(cluster)), leases(5.0), "sessions") as made:
        await costs_no_run(made, "sessions", "AppendEntries", 40, 12.0)


async def costs_no_run(made: Replicas, room: str, method: str, chunks: int, silence: float) -> None:
    """Stop the second replica of a store during runs and sends; none of them fails, and none takes long."""
    async with client(made.plane.url) as http:
        await made.add(room)
        await until_used(made, http, f"{room}2", method)
        runs = await begin(http, chunks)
        sends = Sends(http)
        async with stopped(made, f"{room}2"):
            await sends.run(silence)
        found = await ends(http, runs)
        printed(sends)
        assert all(map(unharmed, found.values())), found
        assert not sends.errors and sends.longest < LEFT + 2


@thorough
async def test_a_stopped_executor_costs_no_run_of_another_executor_and_sends_continue(
    cluster: Cluster, tmp_path: Path
) -> None:
    """C8, C9: its own runs end as lost. Sends without a key that it had fail soon, and are not repeated."""
    url = cluster.url(await take(cluster))
    async with replicas("list", tmp_path, url, leases(5.0), "executor") as made, client(made.plane.url) as http:
        await made.add("executor")
        await until_used(made, http, "executor2", "Submit")
        runs = await begin(http, 50)
        sends = Sends(http)
        async with stopped(made, "executor2"):
            await sends.run(12.0)
            found = await ends(http, runs)
        printed(sends)
        everybody = set[str]().union(*(end.executors for end in found.values()))
        (other,) = set[str]().union(*(end.executors for end in found.values() if unharmed(end)))
        (lost,) = everybody - {other}
        assert all(unharmed(end) for end in found.values() if end.executors != {lost}), found
        assert sends.done > 20 and sends.longest < LEFT + 2
        # At most one error for each sender, which then met the other executor.
        assert len(sends.errors) <= SENDERS and all(at < LEFT for at, _ in sends.errors), sends.errors
