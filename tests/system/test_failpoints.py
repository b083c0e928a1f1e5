"""Processes die at the worst places; nothing stored is lost, and every turn ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

import httpx
import pytest
import pytest_asyncio
from tests.conftest import ENGINES
from tests.support.thorough import THOROUGH
from tests.system.conftest import server_of
from tests.system.judge import at_rest, held, judge
from tests.system.plane import CODE, Plane, running
from tests.system.recorder import COMPLETED, Recorder
from tests.system.wire import client, request, text_message

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

THOROUGHLY = pytest.mark.skipif(not THOROUGH, reason="the ordinary run kills at each place once")
# Process, failpoint, and the number of the passage at which the process ends.
PLACES = [
    ("tasks", "append.before_begin", 7),
    ("tasks", "append.before_commit", 7),
    ("tasks", "append.after_commit_before_ack", 7),
    ("tasks", "fanout.before_publish", 7),
    ("tasks", "watch.before_send", 7),
    ("tasks", "lease.after_claim", 1),
    ("tasks", "claim.after_assign_sent", 1),
    ("tasks", "renew.before_reply", 3),
    ("tasks", "cancel.after_commit", 1),
    ("sessions", "append.before_commit", 3),
    ("sessions", "append.after_commit_before_ack", 3),
    ("executor", "submit.after_outcome", 2),
    ("executor", "submit.after_create", 2),
    ("executor", "append.before_send", 4),
    ("executor", "lease.before_renew", 3),
    ("executor", "complete.after_message", 1),
    ("executor", "complete.after_copy", 1),
    *(pytest.param("executor", f"copy.mid_run.{place}", 1, marks=THOROUGHLY) for place in ("before", "after")),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES)
async def four(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane]:
    """A plane in four processes that are killed and started again."""
    server = server_of(request.param, request)
    async with running("four", tmp_path_factory.mktemp("plane"), server=server) as started:
        yield started


@pytest.mark.parametrize(("name", "place", "nth"), PLACES)
async def test_a_process_that_dies_at_a_failpoint_loses_nothing(four: Plane, name: str, place: str, nth: int) -> None:
    """C1, C2, C6, C8, C9, C10: streams, sends, a pause, an answer and a cancel continue across the death of one
    process."""
    async with client(four.url) as http:
        recorder = Recorder(http)
        await four.arm(name, place, nth)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            # Twice the limit of uncommitted changes, so that they are copied while the agent works.
            for text in ("echo hello", "slow 6", "rerun 6", *(("flood 600",) if place.startswith("copy.") else ())):
                group.create_task(recorder.follow(text))
            for _ in range(2):
                group.create_task(recorder.converse())
            group.create_task(recorder.cancel("slow 40"))
            group.create_task(recorder.send("message hi"))
            assert await four.death(name) == CODE
            await four.start(name)
        await at_rest(four)
    verdict = judge(await held(four), recorder.seen(), recorder.acknowledged)
    print(f"{name} died at {place}: {verdict}, refused {dict(recorder.refusals)}")
    assert verdict.findings() == []
    assert recorder.faults() == []
    assert all(record.state == COMPLETED for record in recorder.records if record.text.startswith("rerun"))


@pytest.mark.parametrize("name", ["executor"])
@pytest.mark.parametrize(
    "place",
    [
        "submit.after_outcome",
        "submit.after_create",
        "copy.mid_run.before",
        "copy.mid_run.after",
        "complete.after_message",
        "complete.after_copy",
        "pause.after_message",
    ],
)
async def test_a_turn_without_its_client_and_executor_ends(four: Plane, place: str, name: str) -> None:
    """C6, C9, C10: nothing stays uncopied; a later repeat under the same key is answered, once."""
    texts = {"copy": "flood 600", "pause": "ask"}
    message = text_message(texts.get(place.partition(".")[0], "echo gone"))
    key = {"Idempotency-Key": message["messageId"], "A2A-Version": "1.0"}
    before = len((await held(four)).tasks)
    await four.arm(name, place, 1)
    async with client(four.url) as http:
        body = request("SendMessage", {"message": message})
        sending = asyncio.create_task(http.post("/", json=body, headers=key))
        assert await four.death(name) == CODE
        sending.cancel()
        with suppress(asyncio.CancelledError, httpx.HTTPError):
            await sending
        await four.start(name)
        await at_rest(four)
        found = await held(four)
        assert judge(found, {}, ()).findings() == []
        assert len(found.tasks) == before + (place != "submit.after_outcome")
        answer = (await http.post("/", json=body, headers=key)).json()["result"]["task"]
        said = (await http.get(f"/api/sessions/{answer['contextId']}/messages")).json()["data"]["messages"]
    assert len((await held(four)).tasks) == before + 1
    # This agent may not run again, so a task that had begun has failed, unless its answer was stored.
    ended = {"submit.after_outcome": COMPLETED, "pause.after_message": "TASK_STATE_INPUT_REQUIRED"}.get(
        place, COMPLETED if place.startswith("complete.") else "TASK_STATE_FAILED"
    )
    assert answer["status"]["state"] == ended
    if ended != "TASK_STATE_FAILED":
        assert [each["role"] for each in said] == ["user", "agent"]
