"""The pauses of loops that try again."""

import asyncio
import math
import time
from collections.abc import Iterator

import pytest

from taskplane.runtime.backoff import Backoff, growing
from taskplane.runtime.errors import Unavailable
from taskplane.runtime.retry import retry_until_reachable


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The pauses that were asked for; the clock goes on by each of them, and nobody waits."""
    pauses: list[float] = []
    now = time.monotonic()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        patched.setattr(time, "monotonic", lambda: now + sum(pauses))
        yield pauses


def test_pauses_double_up_to_the_longest() -> None:
    assert [growing(failures, 0.1, 1.0) for failures in (1, 2, 3, 4, 5, 10_000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert growing(10_000, 1.0, math.inf) == 2.0**30


async def test_a_success_begins_the_pauses_anew(slept: list[float]) -> None:
    backoff = Backoff(0.1, 0.4, jitter=False)
    for _ in range(4):
        assert await backoff.wait()
    backoff.reset()
    assert await backoff.wait()
    assert slept == [0.1, 0.2, 0.4, 0.4, 0.1]


async def test_pauses_differ_between_processes_and_are_at_least_half(slept: list[float]) -> None:
    for _ in range(50):
        await Backoff(1.0, 1.0).wait()
    assert len(set(slept)) > 40
    assert all(0.5 <= pause <= 1.0 for pause in slept)


async def test_the_last_attempt_is_made_when_the_patience_ends(slept: list[float]) -> None:
    backoff = Backoff(0.4, 0.4, jitter=False, patience=1.0)
    assert [await backoff.wait() for _ in range(4)] == [True, True, True, False]
    assert slept == pytest.approx([0.4, 0.4, 0.2])


async def test_patience_counts_from_the_first_failure_or_from_the_given_time(slept: list[float]) -> None:
    """And a success renews it."""
    assert not await Backoff(patience=1.0, since=time.monotonic() - 2.0).wait()
    backoff = Backoff(0.8, 0.8, jitter=False, patience=1.0)
    assert await backoff.wait() and await backoff.wait()
    backoff.reset()
    assert await backoff.wait()
    assert slept == pytest.approx([0.8, 0.2, 0.8])


async def test_an_error_is_waited_for_as_long_as_it_asks_up_to_5_seconds(slept: list[float]) -> None:
    backoff = Backoff(0.1, 0.1, jitter=False, patience=3.0)
    assert await backoff.wait(Unavailable("busy", retry_after=2.0))
    assert await backoff.wait(Unavailable("busy", retry_after=60.0))
    assert not await backoff.wait(Unavailable("busy", retry_after=60.0))
    assert slept == [2.0, 5.0]


async def test_a_call_is_repeated_until_it_succeeds(slept: list[float]) -> None:
    left = iter([Unavailable("down"), Unavailable("down", retry_after=1.5)])

    async def call() -> str:
        for error in left:
            raise error
        return "up"

    assert await retry_until_reachable(call) == "up"
    assert len(slept) == 2 and slept[1] == 1.5
